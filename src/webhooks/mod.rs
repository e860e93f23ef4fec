//! Webhooks: send events to the user's endpoints, each as one signed POST, and only to public
//! addresses unless the configuration allows others.

mod address;
mod sender;

pub use address::{Destinations, check_url, is_public};
pub use sender::{Letter, Sender, Sent};
