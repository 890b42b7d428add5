Servers migrate live (`os-migrateLive`, with abort and forced completion), are evacuated from dead hosts, save their
memory (`trigger_crash_dump`), and show what they use (`diagnostics`). The old actions on fixed and floating addresses
are there to microversion 2.43. An action of another microversion is 404.
