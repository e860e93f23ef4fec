//! `docs/errors.md` as an HTML page, so that the `docs_url` of an error is a page of this server.

use std::sync::LazyLock;

const MARKDOWN: &str = include_str!("../../../../docs/errors.md");

/// The page.
pub static PAGE: LazyLock<String> = LazyLock::new(|| {
    let body = render(MARKDOWN);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>fairgate errors</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"/docs/style.css\">\n</head>\n\
         <body class=\"text\">\n<header><h1>fairgate</h1> <p>Errors</p> <a href=\"/docs\">API</a></header>\n\
         <main>\n{body}</main>\n</body>\n</html>\n"
    )
});

/// Renders the subset of Markdown that the file uses: headings, paragraphs, code and tables.
fn render(markdown: &str) -> String {
    let mut out = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("# ") {
            out.push_str(&format!("<h2>{}</h2>\n", inline(heading)));
        } else if line.starts_with("```") {
            let code: Vec<String> = lines.by_ref().take_while(|line| !line.starts_with("```")).map(escaped).collect();
            out.push_str(&format!("<pre>{}</pre>\n", code.join("\n")));
        } else if line.starts_with('|') {
            out.push_str(&format!("<table>\n{}", row(line, "th")));
            while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
                // Skips the row of dashes below the heading.
                if !line.starts_with("|---") {
                    out.push_str(&row(line, "td"));
                }
            }
            out.push_str("</table>\n");
        } else if !line.is_empty() {
            let mut text = line.to_owned();
            while let Some(more) = lines.next_if(|line| !line.is_empty() && !line.starts_with(['|', '`', '#'])) {
                text.extend([" ", more]);
            }
            out.push_str(&format!("<p>{}</p>\n", inline(&text)));
        }
    }
    out
}

/// Renders a row of a table. An anchor in its first cell becomes the id of the row.
fn row(line: &str, cell: &str) -> String {
    let line = line.trim_matches('|').trim();
    let (id, line) = match line.strip_prefix("<a id=\"").and_then(|rest| rest.split_once("\"></a>")) {
        Some((id, rest)) => (format!(" id=\"{}\"", escaped(id)), rest),
        None => (String::new(), line),
    };
    let cells = line.split(" | ").map(|text| format!("<{cell}>{}</{cell}>", inline(text)));
    format!("<tr{id}>{}</tr>\n", cells.collect::<String>())
}

/// Renders text with inline code. A link is rendered as its text, because the server has no other page of the documentation.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        match index % 2 {
            0 => out.push_str(&escaped(without_links(part))),
            _ => out.extend(["<code>", &escaped(part), "</code>"]),
        }
    }
    out
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, rest_of_text)) =
            link.split_once("](").and_then(|(label, after)| Some((label, after.split_once(')')?.1)))
        else {
            break;
        };
        out.extend([before, label]);
        rest = rest_of_text;
    }
    out + rest
}

fn escaped(text: impl AsRef<str>) -> String {
    text.as_ref().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html_and_text_stays_text() {
        let text = "# A\n\none `<b>` & [two](x.md).\nmore\n\n```json\n{\"a\": 1}\n```\n\n| c | s |\n|---|---|\n| <a id=\"x\"></a>`x` | 4 <5 |\n";
        assert_eq!(
            render(text),
            "<h2>A</h2>\n<p>one <code>&lt;b&gt;</code> &amp; two. more</p>\n<pre>{&quot;a&quot;: 1}</pre>\n\
             <table>\n<tr><th>c</th><th>s</th></tr>\n<tr id=\"x\"><td><code>x</code></td><td>4 &lt;5</td></tr>\n</table>\n"
        );
        assert_eq!(without_links("a [b"), "a [b");
    }
}
