//! Sources of jobs: the places where clients of a Sidekiq put jobs before they are staged.

use crate::config::FairplayClass;
use crate::store::CameFrom;
use std::fmt::{self, Display, Formatter};

/// A source of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportSource {
    /// A queue that no worker reads.
    Queue(String),
    /// The keys of the gem sidekiq-fairplay for a class.
    Fairplay(FairplayClass),
}

impl ImportSource {
    /// Returns the name used in keys, unique among the sources of a Sidekiq.
    pub fn name(&self) -> String {
        match self {
            ImportSource::Queue(queue) => format!("queue:{queue}"),
            ImportSource::Fairplay(class) => format!("fairplay:{}", class.key),
        }
    }

    /// Returns true if jobs that came from there are handed back to this source.
    pub fn is_home_of(&self, came_from: &CameFrom) -> bool {
        match (self, came_from) {
            (ImportSource::Queue(_), CameFrom::StagingQueue) => true,
            (ImportSource::Fairplay(own), CameFrom::Fairplay { class }) => own.class == *class,
            _ => false,
        }
    }
}

impl Display for ImportSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ImportSource::Queue(queue) => write!(f, "queue {queue}"),
            ImportSource::Fairplay(class) => write!(f, "fairplay keys of class {}", class.class),
        }
    }
}
