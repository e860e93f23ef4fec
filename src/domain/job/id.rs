//! Job ids: lower-case UUIDv7.

use uuid::{ContextV7, Timestamp, Uuid};

/// Generates an id. Ids sort by the time of their creation.
pub fn generate() -> String {
    thread_local! {
        // One context per thread avoids the lock of the shared context.
        static CONTEXT: ContextV7 = const { ContextV7::new() };
    }
    let id = CONTEXT.with(|context| Uuid::new_v7(Timestamp::now(context)));
    let mut buffer = Uuid::encode_buffer();
    id.hyphenated().encode_lower(&mut buffer).to_owned()
}

/// Returns true for a lower-case UUIDv7. Upper case is refused because ids are compared as text.
pub fn is_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'7',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_valid_and_ascend() {
        let ids: Vec<String> = (0..1000).map(|_| generate()).collect();
        assert!(ids.iter().all(|id| is_valid(id)));
        assert!(ids.is_sorted(), "ids of one thread ascend");
    }

    #[test]
    fn other_texts_are_not_ids() {
        for text in [
            "",
            "not-an-id",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F",
            "019461a8-1a2b-7c3d-ce4f-5a6b7c8d9e0f",
            "019461a81a2b7c3d8e4f5a6b7c8d9e0f",
            "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f0",
        ] {
            assert!(!is_valid(text), "{text}");
        }
    }
}
