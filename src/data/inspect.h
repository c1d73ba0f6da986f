// What a data set will train on, record by record: for `hone inspect data`.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// Part of a record that lies in one row.
struct InspectedPiece {
  std::int64_t row = 0, begin = 0;  // where in the data set
  std::vector<std::int32_t> ids = {};
  std::vector<bool> learnt = {};  // per id: it is a target, predicted from what is before it, or has a label
  std::vector<std::string> labels = {};  // per id, of tagged records and steps; "": none
  std::map<std::size_t, std::size_t> pictures = {};  // where one begins, of how many ids
  std::int32_t next = -1;         // the target at the last position if the record goes on in another piece, else -1
};

// One record: what of it is in the rows. Records that were dropped or carry no loss have no pieces.
struct InspectedRecord {
  std::int64_t record = 0;
  std::string name;                         // "data/train.jsonl:17"
  std::int64_t tokens = 0, supervised = 0;  // in all its pieces
  std::vector<InspectedPiece> pieces = {};  // in order of rows
  std::optional<std::string> label = {};    // of a labelled record: a label, those that it has, or its numbers
  std::string role = {};                    // "chosen", "rejected": this is one side of a preference pair
};

// Whether its tokens have labels of their own.
bool has_token_labels(const Dataset& data);

// Records in the order of their first row, at most `most` of them (-1: all), from the rows of `data`; of a preference
// pair both sides, one after the other.
std::vector<InspectedRecord> inspect_records(const Dataset& data, std::int64_t most = -1);

// Whether the token is a target anywhere in the record, also one that a cut left as the target of the piece before it.
bool learns(const InspectedRecord& record, std::int32_t id);

// The report as lines of a table, "records  7473" and so on; only counts that say something are shown. Labels
// are not among them.
std::vector<std::pair<std::string, std::int64_t>> report_lines(const DataReport& report);

// Of each label how many documents have it; of regression what numbers there are: {low, high, mean}. null: no labels.
nlohmann::ordered_json labels_of(const DataReport& report);

}  // namespace hone::data
