Projects are listed newest first. The zone `internal` is in the detailed list of availability zones. A registered limit
outlives its service.
