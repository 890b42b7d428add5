External events do something: `network-changed` brings a guest's ports up to date, `volume-extended` shows it the size of
a volume, `power-update` has its power compared. `block_migration` reaches the driver. A server's action log tells of
aborted and forced migrations.
