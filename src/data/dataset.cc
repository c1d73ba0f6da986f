// Dataset: files -> token stores -> rows; collation of rows into batches, and held-out splits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/cache.h"
#include "data/cut.h"
#include "data/files.h"
#include "data/order.h"
#include "hone/data.h"
#include "hone/random.h"

namespace hone {
namespace {

using data::CachedTokens;
using data::Piece;
using data::RowTable;
using data::Stretch;
using data::TokenStore;

// One file: its tokens, the documents of it that belong to this data set, and their rows.
struct FilePart {
  DataFile file;
  CachedTokens tokens;
  std::int64_t first_record = 0;  // of all files' documents
  std::vector<Stretch> stretches = {};
  RowTable rows = {};
  std::int64_t first_row = 0;
  std::string name_of(std::int64_t doc) const { return fmt::format("{}:{}", file.path, tokens.store->line(doc)); }
  // Whether the file is one document of text, as a .txt file is.
  bool single_text() const {
    return stretches.size() == 1 && tokens.store->counts().records == 1 && tokens.store->counts().not_text == 0;
  }
};

// The ids that the tokenizer puts around a text, and the one that a text may begin with at all; -1: none.
struct Ends {
  std::int32_t bos = -1, eos = -1, starts = -1;
};

class PackedDataset final : public Dataset {
 public:
  // parts: all but their rows. `part_name` tells the halves of a split from the whole and from each other.
  PackedDataset(std::vector<FilePart> parts, const Options& options, Ends ends, std::string part_name)
      : parts_(std::move(parts)), options_(options), ends_(ends), part_name_(std::move(part_name)) {
    std::vector<data::StreamOrder::Part> order;
    for (FilePart& part : parts_) {
      const auto name = [&](std::int64_t doc) { return part.name_of(doc); };
      part.rows = data::cut_and_pack(*part.tokens.store, part.stretches, options_, ends_.starts, name, report_);
      order.push_back({part.rows.rows(), part.file.weight});
    }
    order_ = data::StreamOrder(order);
    finish_report();
    check_supervised();
  }

  std::int64_t rows() const override { return order_.rows(); }
  std::int64_t epoch_rows() const override { return order_.epoch_rows(); }
  std::int64_t row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const override {
    return order_.row_at(position, seed, shuffle);
  }
  HostBatch batch(const std::vector<std::int64_t>& rows, std::int32_t pad_id) const override;
  std::string record_name(std::int64_t record) const override;
  const DataReport& report() const override { return report_; }
  std::string fingerprint() const override;
  std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split(double held_out,
                                                                                  std::uint64_t seed) const override;

 private:
  void finish_report();
  void check_supervised() const;
  const FilePart& part_of_row(std::int64_t row) const;
  void fill_row(HostBatch& batch, std::int64_t at, const FilePart& part, std::int64_t row) const;
  std::optional<std::uint64_t> text_cut(const FilePart& part, double held_out) const;
  std::pair<std::vector<FilePart>, std::vector<FilePart>> deal(double held_out, std::uint64_t seed) const;
  std::vector<FilePart> without_rows() const;
  std::string paths() const;

  std::vector<FilePart> parts_;
  Options options_;
  Ends ends_;
  std::string part_name_;  // "" = the whole
  data::StreamOrder order_{{}};
  DataReport report_;
};

void PackedDataset::finish_report() {
  report_.files = static_cast<std::int64_t>(parts_.size());
  for (FilePart& part : parts_) {
    part.first_row = report_.rows;
    report_.rows += part.rows.rows();
    report_.pieces += static_cast<std::int64_t>(part.rows.pieces.size());
    if (!part.tokens.store->unread().empty()) report_.unread_fields[part.file.path] = part.tokens.store->unread();
    for (const Piece& piece : part.rows.pieces) {
      report_.tokens += piece.length;
      report_.supervised += part.tokens.store->supervised(piece.first_target(), piece.targets_end());
    }
    if (!part_name_.empty()) continue;  // a half of a split counts its own documents only
    report_.records += part.tokens.store->counts().empty;
    report_.empty += part.tokens.store->counts().empty;
  }
}

void PackedDataset::check_supervised() const {
  if (report_.supervised > 0) {
    if (order_.epoch_rows() > 0) return;
    throw Error(ErrorKind::config, fmt::format("{}: every weight is 0; expected one above it", paths()));
  }
  std::vector<std::string> why;
  if (report_.empty > 0) why.push_back(fmt::format("{} empty", report_.empty));
  if (report_.dropped > 0)
    why.push_back(fmt::format("{} longer than max_length {} dropped", report_.dropped, options_.max_length));
  if (report_.unsupervised_records > 0)
    why.push_back(fmt::format("{} without a token that is learnt", report_.unsupervised_records));
  Error error(ErrorKind::data,
              fmt::format("{}: no supervised token{} in {}: {}", paths(),
                          part_name_.empty() ? "" : " in the " + part_name_.substr(0, part_name_.find(' ')) + " part",
                          counted(report_.records, "record"), join(why, ", ")));
  if (report_.dropped + report_.cut > 0)
    throw std::move(error).hint("raise data.max_length, or set data.overlong: split");
  throw std::move(error).hint(
      "a document needs two tokens, a completion one, and labels must not all be -100; see `hone inspect data`");
}

std::string PackedDataset::paths() const {
  std::vector<std::string> all;
  for (const FilePart& part : parts_) all.push_back(part.file.path);
  if (all.size() > 3) all = {all[0], all[1], fmt::format("{} more", all.size() - 2)};
  return join(all, ", ");
}

const FilePart& PackedDataset::part_of_row(std::int64_t row) const {
  HONE_ASSERT(row >= 0 && row < rows());
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), row,
                                      [](std::int64_t value, const FilePart& part) { return value < part.first_row; });
  return *std::prev(after);
}

HostBatch PackedDataset::batch(const std::vector<std::int64_t>& rows, std::int32_t pad_id) const {
  HostBatch batch;
  batch.rows = static_cast<std::int64_t>(rows.size());
  for (const std::int64_t row : rows) {
    const FilePart& part = part_of_row(row);
    std::int64_t length = 0;
    for (const Piece& piece : part.rows.row(row - part.first_row)) length += piece.length;
    batch.length = std::max(batch.length, length);
    batch.tokens += length;
  }
  const auto cells = static_cast<std::size_t>(batch.rows * batch.length);
  batch.ids.assign(cells, pad_id);
  batch.labels.assign(cells, -100);
  batch.segments.assign(cells, 0);
  batch.positions.assign(cells, 0);
  batch.weight.assign(cells, 0.0f);
  for (std::size_t i = 0; i < rows.size(); ++i)
    fill_row(batch, static_cast<std::int64_t>(i), part_of_row(rows[i]), rows[i]);
  for (std::size_t i = 0; i < cells; ++i) {
    if (batch.labels[i] == -100) continue;
    batch.weight[i] = 1.0f;
    ++batch.supervised;
  }
  return batch;
}

// Writes one row's documents into row `at` of the batch.
void PackedDataset::fill_row(HostBatch& batch, std::int64_t at, const FilePart& part, std::int64_t row) const {
  const TokenStore& store = *part.tokens.store;
  std::int64_t begin = 0, segment = 0;
  for (const Piece& piece : part.rows.row(row - part.first_row)) {
    const auto cell = at * batch.length + begin;
    if (piece.has_first) batch.ids[static_cast<std::size_t>(cell)] = store.id(store.begin(piece.doc));
    store.copy_ids(piece.begin, piece.end(), batch.ids.data() + cell + (piece.has_first ? 1 : 0));
    store.copy_labels(piece.first_target(), piece.targets_end(), batch.labels.data() + cell);
    ++segment;
    for (std::int64_t i = 0; i < piece.length; ++i) {
      batch.segments[static_cast<std::size_t>(cell + i)] = segment;
      batch.positions[static_cast<std::size_t>(cell + i)] = i;
    }
    const std::int64_t end = begin + piece.length;
    batch.docs.push_back({.row = static_cast<std::int32_t>(at),
                          .begin = static_cast<std::int32_t>(begin),
                          .end = static_cast<std::int32_t>(end),
                          .record = part.first_record + piece.doc});
    begin = end;
  }
}

std::string PackedDataset::record_name(std::int64_t record) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), record,
                       [](std::int64_t value, const FilePart& part) { return value < part.first_record; });
  HONE_ASSERT(after != parts_.begin());
  const FilePart& part = *std::prev(after);
  HONE_ASSERT(record - part.first_record < part.tokens.store->docs());
  return part.name_of(record - part.first_record);
}

std::string PackedDataset::fingerprint() const {
  Hasher hasher;
  hasher.update_field("hone data 2").update_field(part_name_);
  hasher.update_int(static_cast<std::uint64_t>(options_.max_length));
  hasher.update_int(static_cast<std::uint64_t>(options_.overlong))
      .update_int(static_cast<std::uint64_t>(options_.packing));
  for (const FilePart& part : parts_)
    hasher.update_field(part.tokens.key).update_field(fmt::format("{}", part.file.weight));
  return hasher.digest128_hex();
}

// A single text: its last share is held out, counted in tokens without bos and eos (the bytes tokenizer: in bytes). The
// held-out part begins one token early, as context: so its first token is scored, too. The eos is in it.
std::optional<std::uint64_t> PackedDataset::text_cut(const FilePart& part, double held_out) const {
  const TokenStore& store = *part.tokens.store;
  Stretch content = part.stretches.front();
  if (content.end > content.begin && store.id(content.end - 1) == ends_.eos) --content.end;
  if (content.end > content.begin && store.id(content.begin) == ends_.bos) ++content.begin;
  const std::uint64_t length = content.end - content.begin;
  const auto held = static_cast<std::uint64_t>(std::floor(held_out * static_cast<double>(length) + 1e-9));
  if (held == 0 || held >= length) return std::nullopt;
  return content.end - held;
}

// The documents of both parts; those of single texts are cut, others are dealt out by a permutation of their numbers.
std::pair<std::vector<FilePart>, std::vector<FilePart>> PackedDataset::deal(double held_out, std::uint64_t seed) const {
  std::vector<FilePart> rest = without_rows(), held = without_rows();
  for (FilePart& part : held) part.file.weight = 1;  // weights are for training
  std::uint64_t total = 0, index = 0;
  for (const FilePart& part : parts_)
    if (!part.single_text()) total += part.stretches.size();
  const auto wanted = static_cast<std::uint64_t>(std::llround(held_out * static_cast<double>(total)));
  const std::uint64_t count = total < 2 ? 0 : std::clamp<std::uint64_t>(wanted, 1, total - 1);
  const Random random(seed, "held_out");
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].single_text()) {
      const Stretch whole = parts_[i].stretches.front();
      const std::optional<std::uint64_t> cut = text_cut(parts_[i], held_out);
      rest[i].stretches.push_back({whole.begin, cut.value_or(whole.end), whole.doc});
      if (cut) held[i].stretches.push_back({*cut - 1, whole.end, whole.doc});
      continue;
    }
    for (const Stretch& stretch : parts_[i].stretches)
      (random.permuted(index++, total) < count ? held : rest)[i].stretches.push_back(stretch);
  }
  return {std::move(rest), std::move(held)};
}

std::vector<FilePart> PackedDataset::without_rows() const {
  std::vector<FilePart> parts;
  for (const FilePart& part : parts_)
    parts.push_back({.file = part.file, .tokens = part.tokens, .first_record = part.first_record});
  return parts;
}

std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> PackedDataset::split(
    double held_out, std::uint64_t seed) const {
  if (!(held_out > 0 && held_out < 1))
    throw Error(ErrorKind::config,
                fmt::format("data.eval.held_out: got {}, expected more than 0 and less than 1", held_out));
  auto [rest, held] = deal(held_out, seed);
  const auto any = [](const std::vector<FilePart>& parts) {
    return std::any_of(parts.begin(), parts.end(), [](const FilePart& part) { return !part.stretches.empty(); });
  };
  if (!any(held) || !any(rest))
    throw Error(ErrorKind::data, fmt::format("{}: nothing to hold out: a share of {} of {} records", paths(), held_out,
                                             report_.records - report_.empty))
        .hint("give more records, a longer text, or a file of its own for evaluation");
  const auto name = [&](const char* half) { return fmt::format("{}{} {} {}", part_name_, half, held_out, seed); };
  return {std::make_shared<PackedDataset>(std::move(held), options_, ends_, name("held-out")),
          std::make_shared<PackedDataset>(std::move(rest), options_, ends_, name("training"))};
}

// The files of an entry, until it has as many records as it may.
void add_parts(std::vector<FilePart>& parts, const DataFile& entry, const Tokenizer& tokenizer,
               const Dataset::Options& options) {
  std::optional<std::int64_t> left = entry.max_samples;
  data::FoundFiles found = data::files_of(entry);
  data::log_found(entry, found);
  for (DataFile& file : found.files) {
    if (left == 0) {
      log::info("{}: not read: max_samples {} is reached", file.path, *entry.max_samples);
      continue;
    }
    file.max_samples = left;
    const std::int64_t before = parts.empty() ? 0 : parts.back().first_record + parts.back().tokens.store->docs();
    FilePart part{.file = file, .tokens = data::load_tokens(file, tokenizer, options), .first_record = before};
    const TokenStore& store = *part.tokens.store;
    if (left) *left -= store.counts().records;
    for (std::int64_t doc = 0; doc < store.docs(); ++doc)
      part.stretches.push_back({store.begin(doc), store.end(doc), doc});
    parts.push_back(std::move(part));
  }
}

}  // namespace

std::shared_ptr<const Dataset> Dataset::make(const std::vector<DataFile>& files, const Tokenizer& tokenizer,
                                             const Options& options) {
  if (files.empty()) throw Error(ErrorKind::config, "data: no files; expected at least one");
  if (options.max_length < 1 || options.max_length > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::config,
                fmt::format("data.max_length: got {}, expected 1 to 2147483647", options.max_length));
  std::vector<FilePart> parts;
  for (const DataFile& entry : files) {
    if (!std::isfinite(entry.weight) || entry.weight < 0)
      throw Error(ErrorKind::config, fmt::format("{}: weight {}; expected at least 0", entry.path, entry.weight));
    add_parts(parts, entry, tokenizer, options);
  }
  const Ends ends{tokenizer.adds_bos ? tokenizer.bos_id.value_or(-1) : -1,
                  options.append_eos || tokenizer.adds_eos ? tokenizer.eos_id.value_or(-1) : -1,
                  tokenizer.bos_id.value_or(-1)};
  return std::make_shared<PackedDataset>(std::move(parts), options, ends, "");
}

}  // namespace hone
