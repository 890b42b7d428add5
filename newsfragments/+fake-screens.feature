Guests of the hypervisor driver `fake` have a screen, a dark one, which noVNC and other viewers open.
