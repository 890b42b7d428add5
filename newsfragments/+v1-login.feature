Tools that speak Swift's login from before Keystone can use the object store: `[object_store] v1_login` switches
`/object-store/auth/v1.0` on.
