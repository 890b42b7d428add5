Drivers of a fourth kind, ``fencer``: ``redfish`` and ``ipmi`` take the power of hosts and measure that it is gone. ``cloudctl hosts`` lists what a recovery waits for, and takes an operator's word.
