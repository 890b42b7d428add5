Servers show and change their security groups (`os-security-groups`, `addSecurityGroup`, `removeSecurityGroup`), which
Ansible, libcloud and fog need; they can be created with `personality`, `block_device_mapping` and `os-volumes_boot`, and
with user data that an encoder has broken into lines.
