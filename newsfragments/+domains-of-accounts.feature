Accounts show `X-Account-Project-Domain-Id`, the domain of their project.
