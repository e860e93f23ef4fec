//! What happens because time passes, for all processes that have the role `dispatch`; and fetches that wait.

mod auditor;
mod deliveries;
mod lines;
mod long_poll;
mod neighbors;
mod ticker;
mod timetable;
mod waiters;

pub use auditor::Auditor;
pub use deliveries::Deliveries;
pub use long_poll::{LONGEST_WAIT, LongPolls};
pub use neighbors::{Neighbors, Report as NoiseReport};
pub use ticker::Ticker;
pub use timetable::Timetable;
pub use waiters::Waiters;
