A volume that is extended while servers use it is an action `extend_volume` of each of them, with its outcome.
