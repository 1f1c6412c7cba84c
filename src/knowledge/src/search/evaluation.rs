//! How well search answers, measured on questions whose answers are known (contract 4.6, `/eval`).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{AnswerLimit, Index, SearchQuery};

use super::operations::ExpectedAnswer;

/// Most questions of one evaluation.
const MOST_QUESTIONS: usize = 1_000;

/// Most pages that may be expected of one question.
const MOST_EXPECTED: usize = 1_000;

/// A page within this place is a hit (contract 4.6).
const HIT: usize = 5;

/// What was measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchEvaluation {
    /// Search by words
    pub fts: RankingMetrics,
    /// Search by meaning: all null, because this server has none
    pub semantic: UnavailableMetrics,
    /// Each question, in the order given
    pub per_query: Vec<QuestionRank>,
}

/// How well one kind of search did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RankingMetrics {
    /// Part of the questions with an expected page among the first five
    pub hit_rate: f64,
    /// Mean of 1 / rank over all questions, 0 for one whose pages were not found
    pub mrr: f64,
    /// Mean part of the first five pages that were expected
    pub precision_at_5: f64,
}

/// Figures of a search that does not exist here.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct UnavailableMetrics {
    /// null
    pub hit_rate: Option<f64>,
    /// null
    pub mrr: Option<f64>,
    /// null
    pub precision_at_5: Option<f64>,
}

/// How one question fared.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuestionRank {
    /// As it was asked
    pub question: String,
    /// Place of the first expected page, from 1; 0 when none is among the first 50
    pub fts_rank: usize,
    /// null: there is no search by meaning here
    pub semantic_rank: Option<usize>,
}

/// Asks every question, of the pages below a directory where one is given.
///
/// # Errors
/// [`svcfs_base::Kind::Invalid`] for a list that is empty or too long and for a question nothing is expected of; those of the index.
pub fn evaluate(
    index: &Index,
    questions: &[ExpectedAnswer],
    below: Option<&TreePath>,
) -> Result<SearchEvaluation, Fault> {
    if questions.is_empty() || questions.len() > MOST_QUESTIONS {
        let why = format!("has {} questions; 1 to {MOST_QUESTIONS} are asked at once", questions.len());
        return Err(Fault::invalid("queries", why));
    }
    let mut per_query = Vec::with_capacity(questions.len());
    let mut sums = RankingMetrics { hit_rate: 0.0, mrr: 0.0, precision_at_5: 0.0 };
    for (at, ExpectedAnswer { question, expected_paths }) in questions.iter().enumerate() {
        let refuse = |field: &str, why: String| Fault::invalid(&format!("queries[{at}].{field}"), why);
        if expected_paths.is_empty() || expected_paths.len() > MOST_EXPECTED {
            let why = format!("has {} paths; 1 to {MOST_EXPECTED} can be expected", expected_paths.len());
            return Err(refuse("expected_paths", why));
        }
        if question.trim().is_empty() {
            return Err(refuse("question", "is empty; write what somebody would ask".to_owned()));
        }
        let query = SearchQuery {
            q: question.clone(),
            limit: AnswerLimit::default(),
            folder: below.cloned(),
            allow_partial: true,
            ..SearchQuery::default()
        };
        let found: Vec<TreePath> = index.search(&query)?.hits.into_iter().map(|hit| hit.path).collect();
        let rank = found.iter().position(|path| expected_paths.contains(path)).map_or(0, |place| place + 1);
        let right = found.iter().take(HIT).filter(|path| expected_paths.contains(path)).count();
        sums.hit_rate += f64::from((1..=HIT).contains(&rank));
        sums.mrr += if rank > 0 { 1.0 / rank as f64 } else { 0.0 };
        sums.precision_at_5 += right as f64 / HIT as f64;
        per_query.push(QuestionRank { question: question.clone(), fts_rank: rank, semantic_rank: None });
    }
    let asked = questions.len() as f64;
    let fts = RankingMetrics {
        hit_rate: sums.hit_rate / asked,
        mrr: sums.mrr / asked,
        precision_at_5: sums.precision_at_5 / asked,
    };
    Ok(SearchEvaluation { fts, semantic: UnavailableMetrics::default(), per_query })
}
