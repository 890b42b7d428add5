Servers that boot from volumes are rescued (2.87) and rebuilt with other images (2.93); volumes are attached to shelved
servers, and detached from them. `remote-consoles` says of a console that is not enabled that it is unavailable.
