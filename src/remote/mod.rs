//! Another OJS server, spoken to over HTTP as any client would: only under the one URL that was configured, without following
//! redirects, within deadlines, and with no trust in what comes back.

mod answer;
mod error;
mod exchange;
mod queue;
mod relay;
mod verbs;

pub use error::{Error, ErrorKind};
pub use exchange::{Options, Remote};
pub use queue::QueueState;
pub use relay::Passed;
pub use verbs::{Batch, Manifest, Single, id_of};
