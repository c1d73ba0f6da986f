// What a data set will train on, record by record.
#include "data/inspect.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/labels.h"
#include "hone/config_read.h"

namespace hone::data {
namespace {

// The document's ids with what is learnt of them, taken from a batch of one row.
InspectedPiece piece_of(const HostBatch& batch, const Doc& doc, std::int64_t row,
                        const std::vector<std::string>* of_tokens) {
  InspectedPiece piece{.row = row, .begin = doc.begin};
  if (of_tokens) {
    for (auto t = static_cast<std::size_t>(doc.begin); t < static_cast<std::size_t>(doc.end); ++t) {
      const std::int64_t label = batch.labels[t];
      piece.ids.push_back(static_cast<std::int32_t>(batch.ids[t]));
      piece.learnt.push_back(label != -100);
      piece.labels.push_back(label == -100 ? "" : of_tokens->at(static_cast<std::size_t>(label)));
    }
    return piece;
  }
  for (auto t = static_cast<std::size_t>(doc.begin); t < static_cast<std::size_t>(doc.end); ++t) {
    piece.ids.push_back(static_cast<std::int32_t>(batch.ids[t]));
    piece.learnt.push_back(t > static_cast<std::size_t>(doc.begin) && batch.labels[t - 1] != -100);
  }
  const std::int64_t last = batch.labels[static_cast<std::size_t>(doc.end) - 1];
  if (last != -100) piece.next = static_cast<std::int32_t>(last);
  return piece;
}

std::int64_t supervised_in(const HostBatch& batch, const Doc& doc) {
  std::int64_t count = 0;
  for (std::int32_t t = doc.begin; t < doc.end; ++t) count += batch.labels[static_cast<std::size_t>(t)] != -100;
  return count;
}

}  // namespace

// Of labelled texts no token is learnt, of other records there are no labels with numbers.
bool has_token_labels(const Dataset& data) { return !data.labels().empty() && data.report().supervised > 0; }

std::vector<InspectedRecord> inspect_records(const Dataset& data, std::int64_t most) {
  std::vector<InspectedRecord> all;
  std::map<std::int64_t, std::size_t> index;  // record -> place in `all`
  std::int64_t taken = 0;                     // records, of pairs both sides as one
  const std::vector<std::string>* of_tokens = has_token_labels(data) ? &data.labels() : nullptr;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    HostRow docs = data.row(row);
    std::vector<std::vector<DocPicture>> pictures;  // which nobody needs to read
    for (HostDoc& doc : docs) pictures.push_back(std::exchange(doc.pictures, {}));
    const HostBatch batch = pad({std::move(docs)}, 0);
    for (std::size_t i = 0; i < batch.docs.size(); ++i) {
      const Doc& doc = batch.docs[i];
      const auto [at, is_new] = index.try_emplace(doc.record, all.size());
      if (is_new) {
        const bool second = i > 0 && batch.docs[i - 1].group == doc.group && index.contains(batch.docs[i - 1].record);
        if (most >= 0 && taken == most && !second) {
          index.erase(at);
          continue;
        }
        taken += !second;
        all.push_back({.record = doc.record, .name = data.record_name(doc.record)});
        if (doc.role != Role::none) all.back().role = config::Values<Role>::write(doc.role).text();
        if (const auto label = batch.extra.find("label"); label != batch.extra.end())
          all.back().label = shown_target(label->second, i, data.labels(), !data.report().label_numbers.empty());
      }
      InspectedRecord& record = all[at->second];
      record.tokens += doc.end - doc.begin;
      record.supervised += supervised_in(batch, doc);
      record.pieces.push_back(piece_of(batch, doc, row, of_tokens));
      for (const DocPicture& one : pictures[i])
        record.pieces.back().pictures[static_cast<std::size_t>(one.begin)] = static_cast<std::size_t>(one.tokens);
    }
  }
  return all;
}

bool learns(const InspectedRecord& record, std::int32_t id) {
  const auto in_piece = [id](const InspectedPiece& piece) {
    for (std::size_t i = 0; i < piece.ids.size(); ++i)
      if (piece.learnt[i] && piece.ids[i] == id) return true;
    return piece.next == id;
  };
  return std::any_of(record.pieces.begin(), record.pieces.end(), in_piece);
}

std::vector<std::pair<std::string, std::int64_t>> report_lines(const DataReport& report) {
  std::vector<std::pair<std::string, std::int64_t>> lines = {{"records", report.records},
                                                             {"rows", report.rows},
                                                             {"tokens", report.tokens}};
  if (report.asked > 0)
    lines.emplace_back("prompts with an answer", report.asked - report.without_answer);
  else if ((report.labels.empty() && report.label_numbers.empty()) || report.supervised > 0)
    lines.emplace_back("supervised tokens", report.supervised);
  if (report.pictures > 0) {
    lines.emplace_back("pictures", report.pictures);
    lines.emplace_back("tokens of pictures", report.picture_tokens);
  }
  if (report.files > 1) lines.insert(lines.begin(), {"files", report.files});
  const std::pair<const char*, std::int64_t> others[] = {
      {"empty records", report.empty},
      {"records left out as repeated", report.repeated},
      {"records without a supervised token", report.unsupervised_records},
      {"records split", report.split},
      {"records cut", report.cut},
      {"prompts cut", report.cut_prompts},
      {"records dropped", report.dropped},
      {"of them with pictures", report.with_pictures},
      {"tokens cut off or dropped", report.cut_tokens},
      {"supervised tokens lost", report.lost_supervised},
      {"tokens of a prompt and its completion", report.seams}};
  for (const auto& [name, count] : others)
    if (count != 0) lines.emplace_back(name, count);
  return lines;
}

nlohmann::ordered_json labels_of(const DataReport& report) {
  nlohmann::ordered_json labels;
  for (const auto& [label, count] : report.labels) labels[label] = count;
  for (const auto& [label, numbers] : report.label_numbers)
    labels[label] = {
        {"low", numbers.low}, {"high", numbers.high}, {"mean", numbers.sum / static_cast<double>(numbers.count)}};
  return labels;
}

}  // namespace hone::data
