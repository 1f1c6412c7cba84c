use std::collections::HashSet;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Limit, TreePath};
use svcfs_index::{AnswerLimit, Index, SearchQuery};

use super::hybrid::{self, HybridQuery};
use super::operations::require_index;
use super::vector_leg;
use crate::kernel::{FolderScope, Operation, OperationContext, Route};

/// Limit of questions in one evaluation.
const MAX_QUESTIONS: usize = 1_000;

/// Limit of expected pages of one question.
const MAX_EXPECTED: usize = 1_000;

/// A page with at most this rank is a hit.
const HIT_RANK: usize = 5;

/// Pages among which expected ones are searched.
const MAX_RANK: usize = 50;

/// Evaluate search quality with your own questions
///
/// Runs `search` for each question, and `search_semantic` by meaning alone (`semantic`) and with
/// words (`hybrid`), and determines the rank of the first expected page. Returns hit rate, mean
/// reciprocal rank, precision, nDCG and median time of each, and the ranks for each question.
/// Without vector search the values of `semantic` and `hybrid` are null.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EvaluateSearch {
    /// Questions with the pages that answer them, 1 to 1,000
    #[schemars(example = [ExpectedAnswer::example()])]
    #[schemars(length(min = 1, max = 1000))]
    pub queries: Vec<ExpectedAnswer>,
    /// Number of pages of each answer that count for `ndcg`
    #[serde(default)]
    pub k: Limit<5, 50>,
}

/// A question and the pages that answer it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ExpectedAnswer {
    /// The question, as a query of `search`
    #[schemars(regex(pattern = r"\S"))]
    pub question: String,
    /// Pages of which any is a correct answer; at least one
    #[schemars(length(min = 1, max = 1000))]
    pub expected_paths: Vec<TreePath>,
}

impl ExpectedAnswer {
    fn example() -> Value {
        serde_json::json!({ "question": "how do links work", "expected_paths": ["concepts/wikilinks.md"] })
    }
}

impl Operation for EvaluateSearch {
    const NAME: &'static str = "eval";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("top_k", "k")];
    const SHOWS_ALIASES: bool = false;
    const HTTP: &'static [Route] = &[Route::post("/eval").read_only()];
    const TOOL: bool = true;
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    type Output = SearchEvaluation;
    fn run(self, cx: &OperationContext<'_>) -> Result<SearchEvaluation, Fault> {
        require_index(cx, "an evaluation")?;
        let scope = (cx.caller.permissions.folder.as_ref(), self.k.get());
        evaluate((cx, cx.index()), &self.queries, scope)
    }
}

/// Time for all questions: an evaluation uses one of few places for slow operations.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The result of an evaluation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchEvaluation {
    /// Number of pages of each answer that count for `ndcg`
    pub k: usize,
    /// Full-text search
    pub fts: RankingMetrics,
    /// Search by meaning alone; all values are null if vector search is disabled
    pub semantic: OptionalMetrics,
    /// Words and meaning, as `search_semantic`; all values are null if vector search is disabled
    pub hybrid: OptionalMetrics,
    /// The questions, in the order of the request
    pub per_query: Vec<QuestionRank>,
}

/// Quality of one kind of search.
#[derive(Debug, Default, Clone, Serialize, JsonSchema)]
pub struct RankingMetrics {
    /// Share of questions with an expected page among the first five
    pub hit_rate: f64,
    /// Mean of 1 / rank over all questions; 0 for a question without a hit
    pub mrr: f64,
    /// Mean share of expected pages among the first five
    pub precision_at_5: f64,
    /// Mean of the normalized discounted cumulative gain of the first `k` pages
    pub ndcg: f64,
    /// Median time of a search in milliseconds
    pub p50_ms: f64,
}

/// Quality of a kind of search that may be disabled.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct OptionalMetrics {
    /// As in `fts`
    pub hit_rate: Option<f64>,
    /// As in `fts`
    pub mrr: Option<f64>,
    /// As in `fts`
    pub precision_at_5: Option<f64>,
    /// As in `fts`
    pub ndcg: Option<f64>,
    /// As in `fts`
    pub p50_ms: Option<f64>,
}

impl From<RankingMetrics> for OptionalMetrics {
    fn from(metrics: RankingMetrics) -> Self {
        let RankingMetrics { hit_rate, mrr, precision_at_5, ndcg, p50_ms } = metrics;
        Self {
            hit_rate: Some(hit_rate),
            mrr: Some(mrr),
            precision_at_5: Some(precision_at_5),
            ndcg: Some(ndcg),
            p50_ms: Some(p50_ms),
        }
    }
}

/// The result of one question.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QuestionRank {
    /// The question
    pub question: String,
    /// Rank of the first expected page by words, from 1; 0 if none is among the first 50
    pub fts_rank: usize,
    /// The same by meaning; null if vector search is disabled
    pub semantic_rank: Option<usize>,
    /// The same by both; null if vector search is disabled
    pub hybrid_rank: Option<usize>,
    /// Normalized discounted cumulative gain by words
    pub fts_ndcg: f64,
    /// The same by meaning; null if vector search is disabled
    pub semantic_ndcg: Option<f64>,
    /// The same by both; null if vector search is disabled
    pub hybrid_ndcg: Option<f64>,
}

/// How one kind of search answered the questions so far.
#[derive(Default)]
struct RankingSums {
    sums: RankingMetrics,
    times: Vec<Duration>,
}

impl RankingSums {
    /// Adds an answer; returns the rank of the first expected page, and the gain.
    fn add(&mut self, paths: &[TreePath], expected: &[TreePath], (k, time): (usize, Duration)) -> (usize, f64) {
        let is_expected = |path: &TreePath| expected.contains(path);
        let rank = paths.iter().position(is_expected).map_or(0, |place| place + 1);
        let correct = paths.iter().take(HIT_RANK).filter(|path| is_expected(path)).count();
        let different = expected.iter().collect::<HashSet<_>>().len();
        let ndcg = ndcg(paths.iter().take(k).map(is_expected), different.min(k));
        self.sums.hit_rate += f64::from((1..=HIT_RANK).contains(&rank));
        self.sums.mrr += if rank > 0 { 1.0 / rank as f64 } else { 0.0 };
        self.sums.precision_at_5 += correct as f64 / HIT_RANK as f64;
        self.sums.ndcg += ndcg;
        self.times.push(time);
        (rank, ndcg)
    }

    fn metrics(mut self) -> RankingMetrics {
        let count = self.times.len().max(1) as f64;
        self.times.sort_unstable();
        let median = self.times.get(self.times.len() / 2).copied().unwrap_or_default();
        RankingMetrics {
            hit_rate: self.sums.hit_rate / count,
            mrr: self.sums.mrr / count,
            precision_at_5: self.sums.precision_at_5 / count,
            ndcg: self.sums.ndcg / count,
            p50_ms: (median.as_secs_f64() * 1e6).round() / 1e3,
        }
    }
}

/// Normalized discounted cumulative gain of a list in which each page is expected or not.
fn ndcg(is_expected: impl Iterator<Item = bool>, expected: usize) -> f64 {
    let discount = |place: usize| 1.0 / ((place + 2) as f64).log2();
    let gain: f64 = is_expected.enumerate().filter(|(_, hit)| *hit).map(|(place, _)| discount(place)).sum();
    let best: f64 = (0..expected).map(discount).sum();
    if best > 0.0 { gain / best } else { 0.0 }
}

/// Searches for every question, with a directory only in the pages below it.
///
/// # Errors
/// `Invalid` for an empty or too long list and for a question without expected pages; those of the
/// index.
pub fn evaluate(
    (cx, index): (&OperationContext<'_>, &Index),
    questions: &[ExpectedAnswer],
    (below, k): (Option<&TreePath>, usize),
) -> Result<SearchEvaluation, Fault> {
    if questions.is_empty() || questions.len() > MAX_QUESTIONS {
        let message = format!("has {} questions; use 1 to {MAX_QUESTIONS}", questions.len());
        return Err(Fault::invalid("queries", message));
    }
    questions.iter().enumerate().try_for_each(|(position, question)| check(position, question))?;
    let has_vectors = vector_leg::is_enabled(cx.space);
    let evaluated_since = Instant::now();
    let mut per_query = Vec::with_capacity(questions.len());
    let [mut fts, mut semantic, mut hybrid] = [(); 3].map(|()| RankingSums::default());
    for (position, query) in questions.iter().enumerate() {
        if evaluated_since.elapsed() > MAX_TIME {
            let message = format!("took longer than {} s for {position} questions; send fewer", MAX_TIME.as_secs());
            return Err(Fault::invalid("queries", message));
        }
        let ExpectedAnswer { question, expected_paths: expected } = query;
        let started = Instant::now();
        let search = SearchQuery {
            limit: AnswerLimit::default(),
            folder: below.cloned(),
            allow_partial: true,
            ..SearchQuery::new(question)
        };
        let paths: Vec<TreePath> = index.search(&search)?.hits.into_iter().map(|hit| hit.path).collect();
        let (fts_rank, fts_ndcg) = fts.add(&paths, expected, (k, started.elapsed()));
        let ranked_by = |sums: &mut RankingSums, uses_words: bool| -> Result<_, Fault> {
            if !has_vectors {
                return Ok((None, None));
            }
            let started = Instant::now();
            let paths = rank((cx, index), question, (uses_words, below))?;
            let (rank, ndcg) = sums.add(&paths, expected, (k, started.elapsed()));
            Ok((Some(rank), Some(ndcg)))
        };
        let (semantic_rank, semantic_ndcg) = ranked_by(&mut semantic, false)?;
        let (hybrid_rank, hybrid_ndcg) = ranked_by(&mut hybrid, true)?;
        let question = question.clone();
        per_query.push(QuestionRank {
            question,
            fts_rank,
            semantic_rank,
            hybrid_rank,
            fts_ndcg,
            semantic_ndcg,
            hybrid_ndcg,
        });
    }
    let optional = |sums: RankingSums| if has_vectors { sums.metrics().into() } else { OptionalMetrics::default() };
    Ok(SearchEvaluation { k, fts: fts.metrics(), semantic: optional(semantic), hybrid: optional(hybrid), per_query })
}

fn check(position: usize, answer: &ExpectedAnswer) -> Result<(), Fault> {
    let invalid = |field: &str, message: String| Fault::invalid(&format!("queries[{position}].{field}"), message);
    let expected = answer.expected_paths.len();
    if expected == 0 || expected > MAX_EXPECTED {
        return Err(invalid("expected_paths", format!("has {expected} paths; use 1 to {MAX_EXPECTED}")));
    }
    if answer.question.trim().is_empty() {
        return Err(invalid("question", "is empty; write a search query".to_owned()));
    }
    Ok(())
}

/// The pages for a question by meaning, and by words if they count, too.
fn rank(
    (cx, index): (&OperationContext<'_>, &Index),
    question: &str,
    (uses_words, folder): (bool, Option<&TreePath>),
) -> Result<Vec<TreePath>, Fault> {
    let query = HybridQuery {
        question,
        uses_words,
        uses_vectors: true,
        folder,
        scope: None,
        min_similarity: 0.0,
        limit: MAX_RANK,
    };
    Ok(hybrid::rank(cx, index, &query)?.pages.into_iter().map(|page| page.path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_counts_high_places_more() {
        assert_eq!(ndcg([true, false].into_iter(), 1), 1.0);
        assert_eq!(ndcg([false, false].into_iter(), 1), 0.0);
        assert_eq!(ndcg([].into_iter(), 0), 0.0);
        let second = ndcg([false, true].into_iter(), 1);
        assert!((second - 0.6309).abs() < 1e-4, "{second}");
        assert!(ndcg([true, false, true].into_iter(), 2) > ndcg([true, false, false].into_iter(), 2));
    }
}
