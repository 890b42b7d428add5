Instance HA takes an application credential in the place of a token, `Authorization: Bearer appcred:ID:SECRET`, so that alerting tools need no new one each hour.
