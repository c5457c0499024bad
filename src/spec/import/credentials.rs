//! The `credentials` table: the same words in another spelling.

use toml::de::DeValue;

use super::Import;
use super::out::string;
use crate::spec::SpecError;
use crate::spec::json::{Json, Member, Node};

const KEYS: &[&str] = &[
    "files",
    "envVars",
    "awsPairs",
    "sigv4",
    "allowPlaintextInject",
];

impl Import<'_> {
    pub(super) fn credentials(&mut self, place: &str, node: &Node) -> Result<(), SpecError> {
        for m in self.object(place, node)? {
            let what = format!("{place}.{}", m.key);
            match m.key.as_str() {
                "files" => self.credential_list(&what, &m.node, "files")?,
                "envVars" => self.credential_list(&what, &m.node, "env_vars")?,
                "awsPairs" | "sigv4" | "allowPlaintextInject" => self.masking(&what, m)?,
                _ => return Err(self.unknown(place, m, KEYS)),
            }
        }
        Ok(())
    }

    /// Entries that hide and entries that mask; a repository's may only hide.
    fn credential_list(
        &mut self,
        what: &str,
        node: &Node,
        key: &'static str,
    ) -> Result<(), SpecError> {
        for item in self.list(what, node)? {
            let members = self.object(what, item)?;
            let member = |key: &str| members.iter().find(|m| m.key == key).map(|m| &m.node);
            let masks = !matches!(member("mode").map(|m| &m.value), Some(Json::Text(mode)) if mode == "deny");
            if masks
                && self.not_from_repository(&item.span, &format!("an entry of `{what}` that masks"))
            {
                continue;
            }
            let mut entry = self.converted(what, item)?;
            if let (Some(path), DeValue::Table(table)) = (member("path"), entry.get_mut()) {
                let text = self.text(&format!("{what}.path"), path)?;
                let spelled = self.credential_path(text, &path.span)?;
                table.insert(
                    toml::Spanned::new(path.span.clone(), "path".into()),
                    string(&spelled, path.span.clone()),
                );
            }
            self.out.push("credentials", key, entry);
        }
        Ok(())
    }

    fn masking(&mut self, what: &str, m: &Member) -> Result<(), SpecError> {
        if !self.not_from_repository(&m.key_span, &format!("`{what}`")) {
            let value = self.converted(what, &m.node)?;
            let key = match m.key.as_str() {
                "awsPairs" => "aws_pairs",
                "sigv4" => "sigv4",
                _ => "allow_plaintext_inject",
            };
            self.out.set("credentials", key, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_key_is_known() {
        super::super::tests::every_key_is_known("credentials", super::KEYS);
    }
}
