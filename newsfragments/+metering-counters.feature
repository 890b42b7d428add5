`/metrics` shows what metering labels have counted, by label, router and project: `cloudctl_metering_bytes_total` and `cloudctl_metering_packets_total`.
