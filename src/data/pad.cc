// Rows to a batch.
#include <algorithm>
#include <limits>

#include "base/plugin.h"
#include "hone/data.h"

namespace hone {
namespace {

std::int64_t length_of(const HostRow& row) {
  std::int64_t length = 0;
  for (const HostDoc& doc : row) length += std::ssize(doc.ids);
  return length;
}

// Writes a document to `cell` of the batch and the places behind it.
void put(HostBatch& batch, std::int64_t cell, std::int64_t segment, const HostDoc& doc) {
  HONE_ASSERT(!doc.ids.empty() && doc.targets.size() == doc.ids.size());
  std::copy(doc.ids.begin(), doc.ids.end(), batch.ids.begin() + cell);
  std::copy(doc.targets.begin(), doc.targets.end(), batch.labels.begin() + cell);
  for (std::int64_t i = 0; i < std::ssize(doc.ids); ++i) {
    const auto at = static_cast<std::size_t>(cell + i);
    batch.segments[at] = segment;
    batch.positions[at] = i;
    if (batch.labels[at] == -100) continue;
    batch.weight[at] = 1.0f;
    ++batch.supervised;
  }
}

void put_extra(HostBatch& batch, std::int64_t cell, const HostDoc& doc) {
  for (const auto& [name, values] : doc.per_token) {
    HONE_ASSERT(values.size() == doc.ids.size());
    HostColumn& column = batch.extra[name];
    column.values.resize(batch.ids.size());
    std::copy(values.begin(), values.end(), column.values.begin() + cell);
  }
  for (const auto& [name, value] : doc.per_document) {
    HostColumn& column = batch.extra[name];
    column.per = HostColumn::Per::document;
    column.values.resize(batch.docs.size());
    column.values.push_back(value);
  }
  for (const auto& [name, numbers] : doc.numbers) {
    HostColumn& column = batch.extra[name];
    column.per = HostColumn::Per::document;
    column.width = std::ssize(numbers);
    column.numbers.resize(batch.docs.size() * numbers.size());
    column.numbers.insert(column.numbers.end(), numbers.begin(), numbers.end());
  }
}

// Of rows whose teachers said different numbers of tokens the batch has the largest.
void put_taught(HostBatch& batch, const std::vector<HostRow>& rows) {
  TaughtTargets& all = batch.taught;
  for (const HostRow& row : rows)
    for (const HostDoc& doc : row) all.width = std::max(all.width, doc.taught.width);
  if (all.width == 0) return;
  all.ids.assign(batch.ids.size() * static_cast<std::size_t>(all.width), 0);
  all.log_probs.assign(all.ids.size(), -std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < batch.rows; ++i) {
    std::int64_t cell = i * batch.length;
    for (const HostDoc& doc : rows[static_cast<std::size_t>(i)]) {
      const std::int64_t own = doc.taught.width;
      HONE_ASSERT(std::ssize(doc.taught.ids) == own * std::ssize(doc.ids));
      for (std::int64_t t = 0; own > 0 && t < std::ssize(doc.ids); ++t) {
        std::copy_n(doc.taught.ids.begin() + t * own, own, all.ids.begin() + (cell + t) * all.width);
        std::copy_n(doc.taught.log_probs.begin() + t * own, own, all.log_probs.begin() + (cell + t) * all.width);
      }
      cell += std::ssize(doc.ids);
    }
  }
}

}  // namespace

HostBatch collate(std::vector<HostRow> rows, const Collator* collator, std::int32_t pad_id, const Random& random) {
  if (!collator) return pad(rows, pad_id);
  return in_plugin([] { return "data.collator, collate"; }, [&] { return collator->collate(std::move(rows), random); });
}

HostBatch pad(const std::vector<HostRow>& rows, std::int32_t pad_id) {
  HostBatch batch;
  batch.rows = std::ssize(rows);
  for (const HostRow& row : rows) {
    batch.length = std::max(batch.length, length_of(row));
    batch.tokens += length_of(row);
  }
  const auto cells = static_cast<std::size_t>(batch.rows * batch.length);
  batch.ids.assign(cells, pad_id);
  batch.labels.assign(cells, -100);
  batch.segments.assign(cells, 0);
  batch.positions.assign(cells, 0);
  batch.weight.assign(cells, 0.0f);
  std::int32_t group = -1;
  std::vector<PicturedDoc> pictured;
  for (std::int64_t i = 0; i < batch.rows; ++i) {
    std::int64_t begin = 0, segment = 0, last_group = -1;
    for (const HostDoc& doc : rows[static_cast<std::size_t>(i)]) {
      if (doc.group < 0 || doc.group != last_group) ++group;
      last_group = doc.group;
      const std::int64_t end = begin + std::ssize(doc.ids), cell = i * batch.length + begin;
      put(batch, cell, ++segment, doc);
      put_extra(batch, cell, doc);
      if (!doc.pictures.empty()) pictured.push_back({doc.pictures, i, begin});
      batch.docs.push_back({.row = static_cast<std::int32_t>(i),
                            .begin = static_cast<std::int32_t>(begin),
                            .end = static_cast<std::int32_t>(end),
                            .record = doc.record,
                            .role = doc.role,
                            .group = group});
      begin = end;
    }
  }
  add_pictures(batch.pictures, pictured);
  put_taught(batch, rows);
  for (auto& [name, column] : batch.extra) {  // documents that did not say have 0
    if (column.per == HostColumn::Per::token) continue;
    const auto width = static_cast<std::size_t>(column.width);
    width == 0 ? column.values.resize(batch.docs.size()) : column.numbers.resize(batch.docs.size() * width);
  }
  return batch;
}

std::vector<HostRow> Dataset::take(const std::vector<std::int64_t>& rows) const {
  std::vector<HostRow> all;
  for (const std::int64_t one : rows) all.push_back(row(one));
  return all;
}

}  // namespace hone
