An image's property `cinder_img_volume_type` names the type of the volumes that are made from it, unless the request names one.
