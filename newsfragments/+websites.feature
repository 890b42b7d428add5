Containers can be web sites, by Swift's headers `X-Container-Meta-Web-…`: an index, listings, pages for errors.
