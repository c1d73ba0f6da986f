// Report on data: what will be trained on, which tokens carry loss, how much is cut.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/inspect.h"
#include "data/inspect.h"

namespace hone::cli {

using nlohmann::ordered_json;

ordered_json inspect_data(const Dataset& data, const Tokenizer& tokenizer, std::int64_t records) {
  ordered_json report;
  for (const auto& [name, count] : data::report_lines(data.report())) report["counts"][name] = count;
  const DataReport& counts = data.report();
  report["supervised_share"] = counts.tokens ? double(counts.supervised) / double(counts.tokens) : 0.0;
  report["records"] = ordered_json::array();
  for (const data::InspectedRecord& record : data::inspect_records(data, records)) {
    ordered_json row = {{"record", record.name}, {"tokens", record.tokens}, {"supervised", record.supervised}};
    row["pieces"] = record.pieces.size();
    const bool ends = !record.pieces.empty() && tokenizer.eos_id && !record.pieces.back().ids.empty() &&
                      record.pieces.back().ids.back() == *tokenizer.eos_id && record.pieces.back().learnt.back();
    row["eos_supervised"] = ends;
    report["records"].push_back(row);
  }
  return report;
}

std::string marked_records(const Dataset& data, const Tokenizer& tokenizer, std::int64_t records) {
  std::string out;
  for (const data::InspectedRecord& record : data::inspect_records(data, records)) {
    out += fmt::format("\n{} ({} tokens, {} supervised)\n", record.name, record.tokens, record.supervised);
    for (const data::InspectedPiece& piece : record.pieces) {
      out += "  ";
      for (std::size_t begin = 0; begin < piece.ids.size();) {  // runs of equal supervision
        std::size_t end = begin;
        while (end < piece.ids.size() && piece.learnt[end] == piece.learnt[begin]) ++end;
        const std::string text = escape_for_terminal(
            tokenizer.decode({piece.ids.begin() + begin, piece.ids.begin() + end}, false), 2000);
        out += piece.learnt[begin] ? "[" + text + "]" : text;
        begin = end;
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace hone::cli
