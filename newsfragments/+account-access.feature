Accounts of the object store have access lists: `X-Account-Access-Control` opens all of one to users and projects, to read,
to write, or to administer.
