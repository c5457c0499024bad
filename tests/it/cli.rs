//! The command line as scripts meet it: streams, codes, one line an error.
