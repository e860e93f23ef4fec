//! Tells the user's endpoints what happened: one signed POST, to a public address unless the configuration says otherwise.

mod address;
mod sender;

pub use address::{check_url, is_public};
pub use sender::{Letter, Sender, Sent};
