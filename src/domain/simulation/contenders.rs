//! The tenants that have jobs waiting, in the order in which they began to wait as far as no other
//! tenant has left since.

/// A set of tenants with numbers, of which all members can be listed without looking at the others.
#[derive(Clone, Debug)]
pub(super) struct Contenders {
    members: Vec<u32>,
    /// The place of each tenant in `members`.
    places: Vec<Option<u32>>,
}

impl Contenders {
    /// Creates an empty set for this many tenants.
    pub(super) fn new(tenants: usize) -> Contenders {
        Contenders { members: Vec::new(), places: vec![None; tenants] }
    }

    pub(super) fn insert(&mut self, tenant: u32) {
        let place = &mut self.places[tenant as usize];
        if place.is_none() {
            *place = Some(self.members.len() as u32);
            self.members.push(tenant);
        }
    }

    pub(super) fn remove(&mut self, tenant: u32) {
        let Some(place) = self.places[tenant as usize].take() else { return };
        self.members.swap_remove(place as usize);
        if let Some(moved) = self.members.get(place as usize) {
            self.places[*moved as usize] = Some(place);
        }
    }

    pub(super) fn members(&self) -> &[u32] {
        &self.members
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_come_and_go_in_any_order() {
        let mut contenders = Contenders::new(4);
        [2, 0, 3, 2].into_iter().for_each(|tenant| contenders.insert(tenant));
        contenders.remove(2);
        contenders.remove(1);
        assert_eq!(contenders.members(), [3, 0]);
        contenders.remove(0);
        contenders.insert(1);
        contenders.remove(3);
        contenders.remove(3);
        assert_eq!((contenders.members(), contenders.len()), (&[1][..], 1));
    }
}
