//! Results as one HTML page: every figure with its claims, its parameters and the command that makes it. The page needs
//! nothing but itself; links lead to the files beside it.

use askama::Template;

use crate::claims::{Claim, Verdict};
use crate::error::{Failure, Result};
use crate::settings::choice::path_name;
use crate::table::NOTHING;

/// A page of figures.
#[derive(Debug, Template)]
#[template(path = "page.html")]
pub struct Page {
    /// Of the page.
    pub title: String,
    /// Below it.
    pub introduction: String,
    /// One below the other.
    pub figures: Vec<Section>,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Section {
    /// To be linked to: unique on the page, letters, digits and hyphens.
    pub id: String,
    /// Short.
    pub name: String,
    /// Above it.
    pub title: String,
    /// In one line.
    pub conditions: String,
    /// What makes it.
    pub command: String,
    /// SVG documents.
    pub plots: Vec<String>,
    /// What was published beside what was measured.
    pub claims: Vec<ClaimLine>,
    /// What has to be said of it.
    pub remarks: Vec<String>,
    /// Files with its results.
    pub files: Vec<Link>,
    /// A config file with all of its options.
    pub parameters: String,
}

/// A file beside the page.
#[derive(Clone, Debug)]
pub struct Link {
    /// In words.
    pub name: String,
    /// From the page.
    pub href: String,
}

/// A claim, in words.
#[derive(Clone, Debug)]
pub struct ClaimLine {
    /// Its id.
    pub id: String,
    /// What runs it is about, where others have the same claim.
    pub of: String,
    /// What was published.
    pub published: String,
    /// What was measured.
    pub measured: String,
    /// How far the seeds lie apart, and their median.
    pub over_seeds: String,
    /// The verdict with its mark: its colour says nothing that they do not.
    pub verdict: String,
    /// `holds`, `direction`, `fails`, or nothing.
    pub class: String,
}

impl ClaimLine {
    /// Of `claim`.
    pub fn of(claim: &Claim) -> Self {
        let path = claim
            .data_path
            .map(|path| format!("data path {}", path_name(path)));
        let mark = match claim.verdict {
            Some(Verdict::Holds) => "✓ ",
            Some(Verdict::Direction) => "~ ",
            Some(Verdict::Fails) => "✗ ",
            None => "",
        };
        let verdict = claim.verdict.map(|verdict| verdict.to_string());
        Self {
            id: claim.id.to_owned(),
            of: claim.part.clone().or(path).unwrap_or_default(),
            published: claim.published.to_owned(),
            measured: claim.measured_text().unwrap_or_else(|| NOTHING.to_owned()),
            over_seeds: claim.over_seeds.map_or_else(String::new, |over| {
                let median = over.median.text(claim.unit);
                format!("{}, median {median}", over.text(claim.unit))
            }),
            verdict: match &verdict {
                Some(verdict) => format!("{mark}{verdict}"),
                None => "too few samples".to_owned(),
            },
            class: verdict.unwrap_or_default(),
        }
    }
}

impl Section {
    /// How many claims hold, have the right direction, fail, and are not judged.
    fn counts(&self) -> [usize; 4] {
        ["holds", "direction", "fails", ""].map(|class| {
            let of_class = self.claims.iter().filter(|claim| claim.class == class);
            of_class.count()
        })
    }
}

impl Page {
    /// As an HTML document.
    ///
    /// # Errors
    /// [`Failure::Work`]; none in practice.
    pub fn html(&self) -> Result<String> {
        self.render()
            .map_err(|error| Failure::Work(format!("cannot write the page: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_what_is_text_stays_text() {
        let claim = |class: &str| ClaimLine {
            id: "f7-remote".to_owned(),
            of: "gap 2us".to_owned(),
            published: "less < more & \"so\"".to_owned(),
            measured: "1–2×".to_owned(),
            over_seeds: String::new(),
            verdict: format!("✓ {class}"),
            class: class.to_owned(),
        };
        let page = Page {
            title: "A <b>title</b>".to_owned(),
            introduction: "An introduction.".to_owned(),
            figures: vec![Section {
                id: "figure-7".to_owned(),
                name: "figure 7".to_owned(),
                title: "Figure 7".to_owned(),
                conditions: "10 nodes".to_owned(),
                command: "dmtree figure 7".to_owned(),
                plots: vec!["<svg><text>drawn</text></svg>".to_owned()],
                claims: vec![claim("holds"), claim("holds"), claim("fails"), claim("")],
                remarks: vec!["A remark.".to_owned()],
                files: vec![Link {
                    name: "CSV".to_owned(),
                    href: "figure-7/figure-7.csv".to_owned(),
                }],
                parameters: "seconds = \"2s\"".to_owned(),
            }],
        };
        let html = page.html().unwrap();
        for part in [
            "<!DOCTYPE html>",
            "name=\"viewport\"",
            "<svg><text>drawn</text></svg>",
            "A &#60;b&#62;title&#60;/b&#62;",
            "less &#60; more &#38; &#34;so&#34;",
            "href=\"#figure-7\"",
            "id=\"figure-7\"",
            "href=\"figure-7/figure-7.csv\"",
            "<td>2</td><td>0</td><td>1</td><td>1</td>",
            "dmtree figure 7",
            "A remark.",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("http"), "it needs no network");
        assert!(!html.contains("<b>"));
    }
}
