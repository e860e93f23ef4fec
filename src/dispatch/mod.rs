//! What happens because time passes, for all processes that have the role `dispatch`.

mod ticker;

pub use ticker::Ticker;
