`cloudctl docs api` and `cloudctl docs policy` print the list of API calls and the list of rules of the installed version.
