What an EC2 key stands for is remembered while nothing has changed that may affect it, as it is of a token: requests by S3 cost less than half of what they did.
