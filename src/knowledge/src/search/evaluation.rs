use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{AnswerLimit, Index, SearchQuery};

use super::operations::ExpectedAnswer;

/// Limit of questions in one evaluation.
const MAX_QUESTIONS: usize = 1_000;

/// Limit of expected pages of one question.
const MAX_EXPECTED: usize = 1_000;

/// A page with at most this rank is a hit.
const HIT_RANK: usize = 5;

/// The result of an evaluation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchEvaluation {
    /// Full-text search
    pub fts: RankingMetrics,
    /// Semantic search: always null, because this server has none
    pub semantic: UnavailableMetrics,
    /// The questions, in the order of the request
    pub per_query: Vec<QuestionRank>,
}

/// Quality of one kind of search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RankingMetrics {
    /// Share of questions with an expected page among the first five
    pub hit_rate: f64,
    /// Mean of 1 / rank over all questions; 0 for a question without a hit
    pub mrr: f64,
    /// Mean share of expected pages among the first five
    pub precision_at_5: f64,
}

/// Figures of a kind of search that this server does not have.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct UnavailableMetrics {
    /// null
    pub hit_rate: Option<f64>,
    /// null
    pub mrr: Option<f64>,
    /// null
    pub precision_at_5: Option<f64>,
}

/// The result of one question.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuestionRank {
    /// The question
    pub question: String,
    /// Rank of the first expected page, from 1; 0 if none is among the first 50
    pub fts_rank: usize,
    /// null: this server has no semantic search
    pub semantic_rank: Option<usize>,
}

/// Searches for every question, with a directory only in the pages below it.
///
/// # Errors
/// `Invalid` for an empty or too long list and for a question without expected pages; those of the
/// index.
pub fn evaluate(
    index: &Index,
    questions: &[ExpectedAnswer],
    below: Option<&TreePath>,
) -> Result<SearchEvaluation, Fault> {
    if questions.is_empty() || questions.len() > MAX_QUESTIONS {
        let message = format!("has {} questions; use 1 to {MAX_QUESTIONS}", questions.len());
        return Err(Fault::invalid("queries", message));
    }
    let mut per_query = Vec::with_capacity(questions.len());
    let mut sums = RankingMetrics { hit_rate: 0.0, mrr: 0.0, precision_at_5: 0.0 };
    for (position, ExpectedAnswer { question, expected_paths }) in questions.iter().enumerate() {
        let invalid = |field: &str, message: String| Fault::invalid(&format!("queries[{position}].{field}"), message);
        if expected_paths.is_empty() || expected_paths.len() > MAX_EXPECTED {
            let message = format!("has {} paths; use 1 to {MAX_EXPECTED}", expected_paths.len());
            return Err(invalid("expected_paths", message));
        }
        if question.trim().is_empty() {
            return Err(invalid("question", "is empty; write a search query".to_owned()));
        }
        let query = SearchQuery {
            q: question.clone(),
            limit: AnswerLimit::default(),
            folder: below.cloned(),
            allow_partial: true,
            ..SearchQuery::default()
        };
        let paths: Vec<TreePath> = index.search(&query)?.hits.into_iter().map(|hit| hit.path).collect();
        let rank = paths.iter().position(|path| expected_paths.contains(path)).map_or(0, |place| place + 1);
        let correct = paths.iter().take(HIT_RANK).filter(|path| expected_paths.contains(path)).count();
        sums.hit_rate += f64::from((1..=HIT_RANK).contains(&rank));
        sums.mrr += if rank > 0 { 1.0 / rank as f64 } else { 0.0 };
        sums.precision_at_5 += correct as f64 / HIT_RANK as f64;
        per_query.push(QuestionRank { question: question.clone(), fts_rank: rank, semantic_rank: None });
    }
    let count = questions.len() as f64;
    let fts = RankingMetrics {
        hit_rate: sums.hit_rate / count,
        mrr: sums.mrr / count,
        precision_at_5: sums.precision_at_5 / count,
    };
    Ok(SearchEvaluation { fts, semantic: UnavailableMetrics::default(), per_query })
}
