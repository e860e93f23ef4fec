//! Generates the source code that embeds the built dashboard. Runs at build time: `build.rs` includes this file.

use std::fmt::Write;
use std::path::Path;

/// The page, among the built files. All others belong to it.
const PAGE: &str = "index.html";

/// The endings of files and their media types.
const MEDIA_TYPES: [(&str, &str); 3] =
    [("js", "text/javascript; charset=utf-8"), ("css", "text/css; charset=utf-8"), ("svg", "image/svg+xml")];

/// A built file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub content: Vec<u8>,
}

/// Reads the built files in order of their names; none if the folder does not exist or has no page.
pub fn read(folder: &Path) -> std::io::Result<Vec<File>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_file = name == PAGE || media_type(&name).is_some();
        if is_file {
            files.push(File { content: std::fs::read(entry.path())?, name });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(if files.iter().any(|file| file.name == PAGE) { files } else { Vec::new() })
}

/// Generates the source with the page, its tag and its files. Without a page, it is `absent`.
///
/// `place` returns the path at which the compiler finds a file.
pub fn source(
    files: &[File],
    absent: &str,
    digest: impl Fn(&[u8]) -> String,
    place: impl Fn(&str) -> String,
) -> String {
    let page = files.iter().find(|file| file.name == PAGE);
    let content = page.map_or(absent.as_bytes(), |page| &page.content);
    let text = String::from_utf8_lossy(content);
    let tag = format!("\"{}\"", &digest(content)[..16]);
    let mut rust =
        format!("const PAGE: &str = {text:?};\nconst PAGE_TAG: &str = {tag:?};\nstatic ASSETS: &[Asset] = &[\n");
    for File { name, .. } in files {
        if let Some(media_type) = media_type(name) {
            let path = place(name);
            _ = writeln!(
                rust,
                "    Asset {{ name: {name:?}, media_type: {media_type:?}, content: include_bytes!({path:?}) }},"
            );
        }
    }
    rust + "];\n"
}

fn media_type(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    MEDIA_TYPES.iter().find(|(known, _)| *known == ending).map(|(_, media_type)| *media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(files: &[File]) -> String {
        source(files, "<p>absent", |_| "0123456789abcdef0123".to_owned(), |name| format!("/out/{name}"))
    }

    #[test]
    fn the_page_and_its_files_are_embedded() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in
            [("index.html", "<p \"x\">"), ("app-1.js", "1"), ("notes.txt", "no"), (".gitignore", "*")]
        {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let files = read(folder.path()).unwrap();
        assert_eq!(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["app-1.js", "index.html"]);
        let rust = generate(&files);
        assert!(rust.contains(r#"const PAGE: &str = "<p \"x\">";"#), "{rust}");
        assert!(rust.contains(r#"const PAGE_TAG: &str = "\"0123456789abcdef\"";"#), "{rust}");
        let asset = r#"name: "app-1.js", media_type: "text/javascript; charset=utf-8", content: include_bytes!("/out/app-1.js")"#;
        assert!(rust.contains(asset) && !rust.contains("notes") && rust.matches("Asset {").count() == 1, "{rust}");
    }

    #[test]
    fn without_a_page_nothing_but_the_substitute_is_embedded() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&folder.path().join("none")).unwrap(), []);
        std::fs::write(folder.path().join("app-1.js"), "1").unwrap();
        let files = read(folder.path()).unwrap();
        assert!(files.is_empty());
        let rust = generate(&files);
        assert!(rust.contains(r#"const PAGE: &str = "<p>absent";"#) && !rust.contains("include_bytes"), "{rust}");
    }
}
