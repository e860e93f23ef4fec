//! A client of another OJS server. It only uses the configured URL, does not follow redirects, has
//! deadlines, and does not trust what the server returns.

mod answer;
mod api;
mod error;
mod exchange;

mod queue;
mod relay;
mod rounds;
mod verbs;

pub use error::{Error, ErrorKind};
pub use exchange::{Options, Remote};
pub use queue::QueueState;
pub use relay::Passed;
pub use verbs::{BatchOutcome, Manifest, Single, id_of};
