//! The two text formats of metrics: OpenMetrics 1.0.0, and Prometheus' older 0.0.4.
//!
//! The registry encodes OpenMetrics. The older format differs in a few lines only, so it is derived
//! from that text.

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// Returns the format that an `Accept` header prefers. OpenMetrics must be listed explicitly;
    /// the older format is the default.
    pub fn accepted_by(accept: &str) -> Format {
        let quality = |wanted: &str| {
            accept
                .split(',')
                .filter_map(|range| {
                    let mut parts = range.split(';').map(str::trim);
                    let is_wanted = parts.next()?.eq_ignore_ascii_case(wanted);
                    let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
                    quality.filter(|_| is_wanted)
                })
                .fold(0.0_f64, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Format::OpenMetrics } else { Format::Text }
    }

    /// Returns the media type, with version and charset.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics text to version 0.0.4, in which counters are declared under the name of
/// their samples, and `# UNIT` and `# EOF` do not exist.
pub(super) fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line); // kept until the line with the type, which determines the family's name
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let described = help.take().and_then(|line| line.strip_prefix("# HELP ")?.strip_prefix(name));
            if let Some(description) = described {
                text.push_str(&format!("# HELP {name}{suffix}{description}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# ") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_those_who_name_it() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.3", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=much", Format::Text),
            ("application/json", Format::Text),
        ] {
            assert_eq!(Format::accepted_by(accept), expected, "{accept}");
        }
    }

    #[test]
    fn counters_are_declared_by_the_name_of_their_samples() {
        let open = "# HELP a A counter.\n# TYPE a counter\na_total{x=\"# EOF\"} 1\n# HELP b_seconds Time.\n\
                    # TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 0.5\n# EOF\n";
        let text = "# HELP a_total A counter.\n# TYPE a_total counter\na_total{x=\"# EOF\"} 1\n# HELP b_seconds Time.\n\
                    # TYPE b_seconds gauge\nb_seconds 0.5\n";
        assert_eq!(to_text(open), text);
    }
}
