//! The older syntax: one line per clause.
//!
//! Invariant: it is only another syntax. The lines are converted to the current syntax, which is
//! then parsed.

/// A line with one of these keys identifies the older syntax.
const MARKER_KEYS: [&str; 4] = ["where", "sort", "columns", "type"];

const KEYS: [&str; 9] = ["type", "columns", "from", "where", "sort", "group_by", "flatten", "limit", "offset"];

/// The query in the current syntax; `None` when it is in that already.
///
/// # Errors
/// The number of a line and what is wrong with it.
pub(super) fn convert(text: &str) -> Result<Option<String>, String> {
    let clauses: Vec<_> = text.lines().map(clause).collect();
    if !clauses.iter().flatten().any(|(name, _)| MARKER_KEYS.contains(&name.as_str())) {
        return Ok(None);
    }
    let (mut mode, mut columns, mut rest) = (None, Vec::new(), Vec::new());
    for ((number, line), clause) in (1..).zip(text.lines()).zip(clauses) {
        if line.trim().is_empty() {
            continue;
        }
        let Some((name, value)) = clause.filter(|(name, _)| KEYS.contains(&name.as_str())) else {
            return Err(format!("line {number}: expected one of `{}:`", KEYS.join(":`, `")));
        };
        if value.is_empty() {
            return Err(format!("line {number}: `{name}:` has no value"));
        }
        match name.as_str() {
            "type" => mode = Some(value.to_uppercase()),
            "columns" => columns.push(value.to_owned()),
            "from" => rest.push(format!("FROM {}", source(value))),
            "where" => rest.push(format!("WHERE ({value})")),
            "sort" => rest.push(format!("SORT {value}")),
            "group_by" => rest.push(format!("GROUP BY {value}")),
            "flatten" => rest.push(format!("FLATTEN {value}")),
            "limit" => rest.push(format!("LIMIT {value}")),
            _ => rest.push(format!("OFFSET {value}")),
        }
    }
    let mode = match mode.as_deref() {
        // Without columns, a table has only paths.
        Some("TABLE") | None if columns.is_empty() => "LIST",
        None => "TABLE",
        Some(mode) => mode,
    };
    let head = [vec![mode.to_owned()], vec![columns.join(", ")]].concat();
    let parts: Vec<String> = head.into_iter().chain(rest).filter(|part| !part.is_empty()).collect();
    Ok(Some(parts.join("\n")))
}

fn clause(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.trim().split_once(':')?;
    Some((name.trim_end().to_lowercase(), value.trim()))
}

/// Tags and quoted texts are unchanged; anything else is quoted as a path prefix.
fn source(value: &str) -> String {
    if value.starts_with(['#', '"', '\'', '-', '(']) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_to_a_query_of_today() {
        let together = |text: &str| convert(text).unwrap().map(|text| text.replace('\n', " "));
        for (lines, query) in [
            (
                "type: table\ncolumns: status, due\nfrom: tasks/\nwhere: status != \"done\"\nwhere: a = 1 OR b = 2\nsort: due desc\nlimit: 5",
                "TABLE status, due FROM \"tasks/\" WHERE (status != \"done\") WHERE (a = 1 OR b = 2) SORT due desc LIMIT 5",
            ),
            ("where: a = 1", "LIST WHERE (a = 1)"),
            ("columns: a\n\nGROUP_BY: a\nflatten: tags", "TABLE a GROUP BY a FLATTEN tags"),
            ("type: count\nfrom: #x AND -#y", "COUNT FROM #x AND -#y"),
            ("Type: distinct\ncolumns: status\noffset: 2", "DISTINCT status OFFSET 2"),
        ] {
            assert_eq!(together(lines).as_deref(), Some(query), "{lines}");
            assert!(crate::DqlQuery::parse(lines).is_ok(), "{lines}");
        }
        for today in ["LIST", "TABLE a\nWHERE b = \"where: x\"", "from: x"] {
            assert_eq!(together(today), None, "{today}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said_of_that_line() {
        let refused = |text: &str| convert(text).unwrap_err();
        assert!(refused("type: list\nwher: x").starts_with("line 2: expected one of `type:`, `columns:`"));
        assert_eq!(refused("where:\n"), "line 1: `where:` has no value");
        let told = crate::DqlQuery::parse("type: list\nwhere: a = = 1").unwrap_err().to_string();
        assert!(told.contains("read as `LIST WHERE (a = = 1)`"), "{told}");
    }
}
