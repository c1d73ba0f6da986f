// Report on data: what will be trained on, which tokens carry loss, how much is cut.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "cli/inspect.h"
#include "cli/shown_token.h"
#include "data/empty_answers.h"
#include "data/inspect.h"

namespace hone::cli {

using nlohmann::ordered_json;

namespace {

// Tokens apart by |, so that one can see where they are cut; a picture's, which are all the same, by their number.
std::string shown(const Tokenizer& tokenizer, const data::InspectedPiece& piece, std::size_t begin, std::size_t end) {
  std::vector<std::string> tokens;
  for (std::size_t i = begin; i < end;) {
    const auto picture = piece.pictures.find(i);
    const std::size_t count = picture == piece.pictures.end() ? 1 : picture->second;
    const std::string token = shown_token(tokenizer, piece.ids[i]);
    tokens.push_back(picture == piece.pictures.end() ? token : fmt::format("{} x {}", token, count));
    i += count;
  }
  return join(tokens, "|");
}

// Each token that has a label in brackets, with it.
std::string with_labels(const data::InspectedPiece& piece, const Tokenizer& tokenizer) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < piece.ids.size(); ++i) {
    const std::string token = shown_token(tokenizer, piece.ids[i]), label = escape_for_terminal(piece.labels[i]);
    parts.push_back(label.empty() ? token : "[" + token + ": " + label + "]");
  }
  return join(parts, "|");
}

std::string marked(const data::InspectedPiece& piece, const Tokenizer& tokenizer) {
  if (!piece.labels.empty()) return with_labels(piece, tokenizer);
  std::string out;
  for (std::size_t begin = 0; begin < piece.ids.size();) {  // runs of equal supervision
    std::size_t end = begin;
    while (end < piece.ids.size() && piece.learnt[end] == piece.learnt[begin]) ++end;
    const std::string text = shown(tokenizer, piece, begin, end);
    out += piece.learnt[begin] ? "[" + text + "]" : text;
    begin = end;
  }
  return piece.next < 0 ? out : out + " -> [" + shown_token(tokenizer, piece.next) + "]";
}

constexpr std::size_t kShownTokens = 4096;  // of a record, on a terminal

data::InspectedPiece beginning(data::InspectedPiece piece, std::size_t count) {
  if (count == piece.ids.size()) return piece;
  piece.ids.resize(count), piece.learnt.resize(count), piece.next = -1;
  if (!piece.labels.empty()) piece.labels.resize(count);
  return piece;
}

ordered_json content(const data::InspectedPiece& piece, const Tokenizer& tokenizer) {
  ordered_json made = {{"ids", piece.ids}, {"learnt", piece.learnt}, {"text", marked(piece, tokenizer)}};
  if (piece.next >= 0) made["next"] = piece.next;
  for (const std::string& label : piece.labels)
    made["labels"].push_back(label.empty() ? ordered_json() : ordered_json(label));
  return made;
}

// Rows of ids may have been made with another tokenizer: nothing else would say so before the run.
void tell_unknown_ids(const Dataset& data, const Tokenizer& tokenizer) {
  if (tokenizer.vocab_size() == 0) return;  // none
  std::int64_t unknown = 0, highest = 0;
  std::string first;
  for (std::int64_t row = 0; row < data.rows(); ++row)
    for (const HostDoc& doc : data.row(row)) {
      const auto look_at = [&](std::int64_t id) {
        if (id < tokenizer.vocab_size()) return;
        if (unknown++ == 0) first = data.record_name(doc.record);
        highest = std::max(highest, id);
      };
      for (std::size_t i = 0; i < doc.ids.size(); ++i) {
        look_at(doc.ids[i]);
        const bool is_next = i + 1 < doc.ids.size() && doc.targets[i] == doc.ids[i + 1];
        if (!is_next) look_at(doc.targets[i]);
      }
    }
  if (unknown == 0) return;
  log::warning("{}: {} the tokenizer does not have; got up to {}, expected at most {}: is it the model's tokenizer?",
               first, unknown == 1 ? "a token id that" : fmt::format("the first of {} tokens whose ids", unknown),
               highest, tokenizer.vocab_size() - 1);
}

}  // namespace

ordered_json inspect_data(const DataToInspect& given, std::int64_t records, bool show) {
  const Dataset& data = *given.data;
  const Tokenizer& tokenizer = *given.tokenizer;
  ordered_json report;
  if (given.may_have_ids) tell_unknown_ids(data, tokenizer);
  for (const auto& [name, count] : data::report_lines(data.report()))
    report["counts"][replace_all(name, " ", "_")] = count;
  if (const std::int64_t empty = data::count_answers(data, tokenizer).empty; empty > 0)
    report["counts"]["empty_answers"] = empty;
  const DataReport& counts = data.report();
  if (auto labels = data::labels_of(counts); !labels.is_null()) report["labels"] = std::move(labels);
  for (const std::string& label : data.labels()) report["labels"].emplace(label, 0);
  if (counts.asked == 0 && (data.labels().empty() || counts.supervised > 0))
    report["supervised_share"] = counts.tokens ? double(counts.supervised) / double(counts.tokens) : 0.0;
  for (const auto& [file, fields] : counts.unread_fields) report["unread_fields"][file] = join(fields, ", ");
  report["records"] = ordered_json::array();
  for (const data::InspectedRecord& record : data::inspect_records(data, records)) {
    ordered_json row = {{"record", record.name}, {"tokens", record.tokens}};
    if (!record.role.empty()) row["role"] = record.role;
    if (!record.label) {
      row[counts.asked > 0 ? "answer_tokens" : "supervised"] = record.supervised;
      row["pieces"] = record.pieces.size();
      if (counts.asked == 0 && !data::has_token_labels(data))
        row["eos_supervised"] = tokenizer.eos_id && data::learns(record, *tokenizer.eos_id);
    } else {
      row["label"] = *record.label;
    }
    if (show)
      for (const data::InspectedPiece& piece : record.pieces) row["content"].push_back(content(piece, tokenizer));
    report["records"].push_back(row);
  }
  return report;
}

std::string marked_records(const Dataset& data, const Tokenizer& tokenizer, std::int64_t records, bool full) {
  std::string out;
  for (const data::InspectedRecord& record : data::inspect_records(data, records)) {
    const char* learnt = data.report().asked > 0 ? "of the answer" : "supervised";
    const std::string what =
        record.label ? "label " + hone::quoted(*record.label) : fmt::format("{} {}", record.supervised, learnt);
    const std::string role = record.role.empty() ? "" : ", " + record.role;
    out += fmt::format("\n{}{} ({} tokens, {})\n", record.name, role, record.tokens, what);
    std::size_t left = full ? static_cast<std::size_t>(record.tokens) : kShownTokens, hidden = 0;
    for (const data::InspectedPiece& piece : record.pieces) {
      const std::size_t count = std::min(left, piece.ids.size());
      if (count > 0) out += "  " + marked(beginning(piece, count), tokenizer) + "\n";
      left -= count, hidden += piece.ids.size() - count;
    }
    if (hidden > 0)
      out += fmt::format("  … {}; --full prints them\n", counted(static_cast<std::int64_t>(hidden), "more token"));
  }
  return out;
}

}  // namespace hone::cli
