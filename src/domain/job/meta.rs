//! The `meta` of a job: the client's text byte for byte, with additional members inserted in front.

use super::trace;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Member, Object};

/// Merges `meta` with other sources; returns the text and the trace that the job belongs to. The
/// client's own members win over the values from `headers`, such as trace headers, which in turn
/// win over `options.metadata`.
pub fn merge(
    body: &Object<'_>,
    options: &Object<'_>,
    headers: &[(&'static str, String)],
    most: usize,
) -> Result<(String, Option<String>), Invalid> {
    let own = body.get("meta");
    let text = own.or_else(|| options.get("meta")).unwrap_or("{}");
    let name = if own.is_some() { "meta" } else { "options.meta" };
    let meta = Object::parse(text).map_err(|_| Invalid::field(name, "an object", text))?;
    let metadata = match options.get("metadata") {
        None => Object::default(),
        Some(value) => Object::parse(value).map_err(|_| Invalid::field("options.metadata", "an object", value))?,
    };
    let mut added = String::new();
    for Member { name, raw_name, value } in metadata.members().filter(|member| meta.get(&member.name).is_none()) {
        if !headers.iter().any(|(header, _)| header == name) {
            added.extend([raw_name, ":", value, ","]);
        }
    }
    for (name, value) in headers.iter().filter(|(name, _)| meta.get(name).is_none()) {
        added.extend(["\"", name, "\":"]);
        json::push_text(&mut added, value);
        added.push(',');
    }
    let merged = match text.trim_start().strip_prefix('{') {
        Some(_) if !added.is_empty() && meta.is_empty() => format!("{{{}}}", added.trim_end_matches(',')),
        Some(rest) if !added.is_empty() => format!("{{{added}{rest}"),
        _ => text.to_owned(),
    };
    if merged.len() > most {
        return Err(Invalid::too_large(Kind::MetaTooLarge, "meta", merged.len(), most, "bytes"));
    }
    let trace = match added.is_empty() {
        true => trace::of_meta(&meta),
        false => Object::parse(&merged).ok().and_then(|meta| trace::of_meta(&meta)),
    };
    Ok((merged, trace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(body: &str, options: &str, headers: &[(&'static str, String)]) -> String {
        let (body, options) = (Object::parse(body).unwrap(), Object::parse(options).unwrap());
        merge(&body, &options, headers, 1000).unwrap().0
    }

    #[test]
    fn what_was_sent_stays_as_it_was() {
        assert_eq!(merged(r#"{"meta":{ "a" : 1.0 }}"#, "{}", &[]), r#"{ "a" : 1.0 }"#);
        assert_eq!(merged("{}", "{}", &[]), "{}");
        assert_eq!(merged("{}", r#"{"meta":{"a":1}}"#, &[]), r#"{"a":1}"#);
    }

    #[test]
    fn the_clients_own_members_win() {
        let headers = [("tracestate", "h".to_owned())];
        let body = r#"{"meta":{"a":1,"tracestate":"own"}}"#;
        assert_eq!(merged(body, r#"{"metadata":{"a":2,"b":[]}}"#, &headers), r#"{"b":[],"a":1,"tracestate":"own"}"#);
        assert_eq!(merged(r#"{"meta":{}}"#, "{}", &headers), r#"{"tracestate":"h"}"#);
    }
}
