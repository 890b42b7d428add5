Lock-out is on: ten failed logins in a row lock a password out for half an hour, five lock passcodes out. `[identity.passwords]`
has the numbers; the new `passcode_failure_attempts` cannot be switched off.
