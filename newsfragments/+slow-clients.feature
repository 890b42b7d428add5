`[admission]` bounds what clients may ask for: connections for one address and in all, seconds for the head of a request, the rate of
its body, and the memory of bodies that have not arrived in full.
