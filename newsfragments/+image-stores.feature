Images may be kept in several stores: directories named in `[image] stores`. Uploads and imports name those where data
shall go, `copy-image` copies it to others, and the data of one store can be deleted. Images tell where their data is.
`glance-download` makes an image of another one that the catalog leads to; only this cloud's own image service is asked.
