// Dataset: files -> token stores -> rows, and held-out splits; also the windows that streams are read in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/hash.h"
#include "base/log.h"
#include "base/option_words.h"
#include "base/strings.h"
#include "data/cache.h"
#include "data/cut.h"
#include "data/file_part.h"
#include "data/files.h"
#include "data/form.h"
#include "data/labels.h"
#include "data/order.h"
#include "data/pictures.h"
#include "data/questions.h"
#include "data/stream_entry.h"
#include "data/token_targets.h"
#include "data/token_vector_texts.h"
#include "data/unmet.h"
#include "data/window.h"
#include "hone/data.h"
#include "hone/data_in_memory.h"
#include "hone/random.h"

namespace hone {
namespace {

using data::CachedTokens;
using data::FilePart;
using data::Piece;
using data::RowTable;
using data::Stretch;
using data::TokenStore;

std::string some_of(std::vector<std::string> paths) {
  if (paths.size() > 3) paths = {paths[0], paths[1], fmt::format("{} more", paths.size() - 2)};
  return join(paths, ", ");
}

constexpr std::int64_t kFewLabels = 20;

// The ids that the tokenizer puts around a text, and the one that a text may begin with at all; -1: none.
struct Ends {
  std::int32_t bos = -1, eos = -1, starts = -1;
  std::shared_ptr<const data::TokenVectorTexts> token_vectors = {};  // of texts that become such
};

// Few rows, or a small weight, make another weight of it.
void tell_rounded(const data::StreamOrder::Part& part, const std::string& path) {
  constexpr double kNoticed = 0.05;
  const auto rows = static_cast<double>(part.rows);
  const double slots = data::StreamOrder::slots_of(part), wanted = part.weight * rows;
  if (std::abs(slots - wanted) <= kNoticed * wanted) return;
  log::warning("{}: an epoch has whole rows: {} of {} for weight {}, as if it were {:.3g}", path,
               static_cast<std::int64_t>(slots), counted(part.rows, "row"), part.weight, slots / rows);
}

class PackedDataset final : public Dataset {
 public:
  // parts: all but their rows. `part_name` tells the halves of a split from the whole and from each other.
  PackedDataset(std::vector<FilePart> parts, const Options& options, Ends ends, std::string part_name)
      : parts_(std::move(parts)), options_(options), ends_(ends), part_name_(std::move(part_name)) {
    if (options_.records == RecordKind::labelled || data::are_of_tokens(options_.records)) number_labels();
    std::vector<data::StreamOrder::Part> order;
    for (FilePart& part : parts_) {
      const auto name = [&](std::int64_t doc) { return part.name_of(doc); };
      part.rows = data::cut_and_pack(*part.tokens.store, part.stretches, options_, ends_.starts, name, report_);
      order.push_back({part.rows.rows(), part.file.weight});
      tell_rounded(order.back(), part.file.path);
    }
    order_ = data::StreamOrder(order);
    finish_report();
  }
  // Throws Error(data) where there is nothing to learn.
  void check_supervised() const;

  std::int64_t rows() const override { return order_.rows(); }
  std::int64_t epoch_rows() const override { return order_.epoch_rows(); }
  std::int64_t row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const override {
    return order_.row_at(position, seed, shuffle);
  }
  HostRow row(std::int64_t row) const override;
  std::string record_name(std::int64_t record) const override;
  const DataReport& report() const override { return report_; }
  const QuestionDoc* question(std::int64_t record) const override;
  const std::vector<std::string>* references(std::int64_t record) const override;
  const std::vector<std::string>& labels() const override { return options_.labels; }
  std::string fingerprint() const override;
  std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split(double held_out,
                                                                                  std::uint64_t seed) const override;

 private:
  void number_labels();
  Error unfit_label(const FilePart& part, std::size_t name, const std::string& fact) const;
  void check_labels(const std::vector<std::string>& texts) const;
  void finish_report();
  const FilePart& part_of_row(std::int64_t row) const;
  void count_targets(const FilePart& part, const Piece& piece);
  void put_target(const FilePart& part, const Piece& piece, HostDoc& doc) const;
  HostDoc doc_of(const FilePart& part, const Piece& piece) const;
  const FilePart& part_of_record(std::int64_t record) const;
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

// From here on the labels are known; those of the data are taken where nobody has said which they are.
void PackedDataset::number_labels() {
  if (options_.records == RecordKind::question) options_.labels = data::answer_places();
  if (options_.labels.empty()) {
    std::vector<std::string> texts;
    for (const FilePart& part : parts_) {
      const std::vector<std::string>& names = part.tokens.store->label_names();
      texts.insert(texts.end(), names.begin(), names.end());
    }
    options_.labels = data::labels_in(texts, options_.problem_type);
    check_labels(texts);
  }
  for (FilePart& part : parts_) {
    const std::vector<std::string>& names = part.tokens.store->label_names();
    const auto fail = [&](std::size_t name, const std::string& fact) { return unfit_label(part, name, fact); };
    const bool of_tokens = data::are_of_tokens(options_.records);
    part.targets = of_tokens ? data::Targets::of_tokens(names, options_.labels, fail)
                             : data::Targets(names, options_.labels, options_.problem_type, fail);
  }
}

// Of labels that nobody has named: the wrong field may have been read.
void PackedDataset::check_labels(const std::vector<std::string>& texts) const {
  const std::int64_t count = std::ssize(options_.labels);
  std::int64_t documents = 0;
  for (const FilePart& part : parts_) documents += part.tokens.store->docs();
  if (documents == 0) return;  // said elsewhere
  const bool one = options_.problem_type == ProblemType::single_label_classification;
  const bool numbers = options_.problem_type == ProblemType::regression;
  if (data::are_of_tokens(options_.records)) return data::check_token_labels(texts, paths());
  if (!numbers) data::require_one_kind(options_.labels, paths());
  if (!numbers) data::warn_of_alike_labels(options_.labels, paths());
  if (std::set(texts.begin(), texts.end()).size() < 2)
    throw Error(ErrorKind::data,
                fmt::format("{}: every record has the {} {}; expected {}", paths(),
                            one       ? "label"
                            : numbers ? "number"
                                      : "labels",
                            one ? hone::quoted(texts[0]) : texts[0],
                            one       ? "at least two labels"
                            : numbers ? "different ones"
                                      : "others in some"));
  if (!numbers && count > kFewLabels && count > documents / 2)
    throw Error(ErrorKind::data, fmt::format("{}: {} labels in {} records: {}; expected fewer", paths(), count,
                                             documents, list_names(options_.labels, 5)))
        .hint(fmt::format("is this field the label? {} names another", columns_words({{"label", "..."}})));
}

Error PackedDataset::unfit_label(const FilePart& part, std::size_t name, const std::string& fact) const {
  const TokenStore& store = *part.tokens.store;
  std::int64_t doc = 0;
  while (!data::has_label(store, doc, name)) ++doc;
  Error error(ErrorKind::data, part.name_of(doc) + ": " + fact);
  if (options_.problem_type == ProblemType::regression) return error;
  return std::move(error).hint(
      fmt::format("{}; objective.labels names what a new head learns",
                  options_.records == RecordKind::tagged ? "a word with the tag -100 is neither learnt nor measured"
                                                         : "leave such records out"));
}

void PackedDataset::count_targets(const FilePart& part, const Piece& piece) {
  if (part.tokens.store->is_tagged()) {
    for (const std::int64_t target : data::token_targets(*part.tokens.store, part.targets, piece))
      if (target != -100) ++report_.labels[options_.labels[static_cast<std::size_t>(target)]];
    return;
  }
  const std::uint32_t name = part.tokens.store->label(piece.doc).name;
  for (const std::int64_t label : part.targets.labels(name))
    ++report_.labels[options_.labels[static_cast<std::size_t>(label)]];
  if (options_.problem_type != ProblemType::regression) return;
  const std::vector<double> numbers = part.targets.numbers(name);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    LabelNumbers& all = report_.label_numbers[options_.labels[i]];
    all.low = all.count == 0 ? numbers[i] : std::min(all.low, numbers[i]);
    all.high = all.count == 0 ? numbers[i] : std::max(all.high, numbers[i]);
    all.sum += numbers[i];
    ++all.count;
  }
}

void PackedDataset::finish_report() {
  report_.files = static_cast<std::int64_t>(parts_.size());
  for (FilePart& part : parts_) {
    part.first_row = report_.rows;
    report_.rows += part.rows.rows();
    report_.pieces += static_cast<std::int64_t>(part.rows.pieces.size());
    if (!part.tokens.store->unread().empty()) report_.unread_fields[part.file.path] = part.tokens.store->unread();
    for (const Piece& piece : part.rows.pieces) {
      report_.tokens += piece.length;
      for (const data::PlacedPicture& one : part.tokens.store->pictures(piece.begin, piece.end()))
        report_.pictures += one.tile == 0, report_.picture_tokens += static_cast<std::int64_t>(one.tokens);
      const bool tagged = part.tokens.store->is_tagged();
      report_.supervised += part.tokens.store->supervised(tagged ? piece.begin : piece.first_target(),
                                                          tagged ? piece.end() : piece.targets_end());
      report_.without_prompt += !part.tokens.store->has_prompt(piece.doc);
      if (options_.records == RecordKind::judged)
        ++report_.labels[part.tokens.store->role(piece.doc) == Role::chosen ? "desirable" : "undesirable"];
      if (!part.targets.empty()) count_targets(part, piece);
    }
    if (!part_name_.empty()) continue;  // a half of a split counts its own documents only
    report_.records += part.tokens.store->counts().empty + part.repeated;
    report_.empty += part.tokens.store->counts().empty;
    report_.repeated += part.repeated;
  }
}

void PackedDataset::check_supervised() const {
  const bool asked = options_.records == RecordKind::asked && report_.rows > 0;
  const bool labelled =
      (options_.records == RecordKind::labelled || data::are_texts(options_.records)) && report_.rows > 0;
  if (report_.supervised > 0 || labelled || asked) {
    if (order_.epoch_rows() > 0) return;
    throw Error(ErrorKind::config, fmt::format("{}: every weight is 0; expected one above it", paths()));
  }
  if (options_.records == RecordKind::asked)
    throw Error(ErrorKind::data, fmt::format("{}: no prompt has at most max_length {} tokens with its answer, of {}",
                                             paths(), options_.max_length, counted(report_.records, "record")))
        .hint("raise " + option_words("data.max_length"));
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
  const std::string split = ", or set " + option_words("data.overlong", "split");
  if (report_.dropped + report_.cut > 0)  // pictures are never cut
    throw std::move(error).hint("raise " + option_words("data.max_length") + (report_.with_pictures > 0 ? "" : split));
  throw std::move(error).hint(std::string(data::kNothingLearnt) + "; of messages the assistant's turns are learnt");
}

std::string PackedDataset::paths() const {
  std::vector<std::string> all;
  for (const FilePart& part : parts_) all.push_back(part.file.path);
  return some_of(std::move(all));
}

void PackedDataset::put_target(const FilePart& part, const Piece& piece, HostDoc& doc) const {
  const std::uint32_t name = part.tokens.store->label(piece.doc).name;
  if (options_.problem_type == ProblemType::single_label_classification)
    doc.per_document["label"] = part.targets.labels(name)[0];
  else
    doc.numbers["label"] = part.targets.numbers(name);
}

const FilePart& PackedDataset::part_of_row(std::int64_t row) const {
  HONE_ASSERT(row >= 0 && row < rows());
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), row,
                                      [](std::int64_t value, const FilePart& part) { return value < part.first_row; });
  return *std::prev(after);
}

HostRow PackedDataset::row(std::int64_t row) const {
  const FilePart& part = part_of_row(row);
  HostRow docs;
  for (const Piece& piece : part.rows.row(row - part.first_row)) docs.push_back(doc_of(part, piece));
  return docs;
}

HostDoc PackedDataset::doc_of(const FilePart& part, const Piece& piece) const {
  const TokenStore& store = *part.tokens.store;
  HostDoc doc{.ids = std::vector<std::int64_t>(piece.length), .targets = {}, .record = part.record_of(piece.doc)};
  doc.role = store.role(piece.doc);
  if (options_.records != RecordKind::question) doc.group = store.group(piece.doc);
  if (piece.has_first) doc.ids[0] = store.id(store.begin(piece.doc));
  store.copy_ids(piece.begin, piece.end(), doc.ids.data() + (piece.has_first ? 1 : 0));
  if (store.is_tagged()) {
    doc.targets = data::token_targets(store, part.targets, piece);
    data::put_types(store, piece, doc);
    return doc;
  }
  doc.targets.assign(piece.length, -100);
  store.copy_labels(piece.first_target(), piece.targets_end(), doc.targets.data());
  if (store.counts_characters()) doc.per_document["characters"] = store.characters(piece.doc);
  if (store.taught().is_there())
    doc.taught = store.taught().targets(piece.first_target(), piece.targets_end(), piece.length);
  if (auto placed = store.pictures(piece.begin, piece.end()); !placed.empty())
    doc.pictures = data::doc_pictures(std::move(placed), options_.pictures, record_name(doc.record));
  if (data::are_texts(options_.records)) data::put_score(store, piece, doc);
  if (ends_.token_vectors) ends_.token_vectors->put(store.label(piece.doc).second, doc);
  if (options_.records == RecordKind::ranked) data::put_types(store, piece, doc);
  if (part.targets.empty()) return doc;
  put_target(part, piece, doc);
  data::put_types(store, piece, doc);
  return doc;
}

const FilePart& PackedDataset::part_of_record(std::int64_t record) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), record,
                       [](std::int64_t value, const FilePart& part) { return value < part.first_record; });
  HONE_ASSERT(after != parts_.begin());
  const FilePart& part = *std::prev(after);
  HONE_ASSERT(record - part.first_record < part.tokens.store->docs());
  return part;
}

const QuestionDoc* PackedDataset::question(std::int64_t record) const {
  if (parts_.front().names) return nullptr;
  const FilePart& part = part_of_record(record);
  return part.tokens.store->question(record - part.first_record);
}

const std::vector<std::string>* PackedDataset::references(std::int64_t record) const {
  if (parts_.front().names) return nullptr;
  const FilePart& part = part_of_record(record);
  return part.tokens.store->references(record - part.first_record);
}

std::string PackedDataset::record_name(std::int64_t record) const {
  if (parts_.front().names) return parts_.front().names(record);
  const FilePart& part = part_of_record(record);
  return part.name_of(record - part.first_record);
}

std::string PackedDataset::fingerprint() const {
  Hasher hasher;
  hasher.update_field("hone data 2").update_field(part_name_);
  for (const std::string& label : options_.labels) hasher.update_field(label);
  hasher.update_int(static_cast<std::uint64_t>(options_.max_length));
  hasher.update_int(static_cast<std::uint64_t>(options_.overlong))
      .update_int(static_cast<std::uint64_t>(options_.packing));
  if (options_.deduplicate) hasher.update_field("deduplicate");
  if (options_.problem_type != ProblemType::single_label_classification)
    hasher.update_field("problem type").update_int(static_cast<std::uint64_t>(options_.problem_type));
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
  const auto make = [&](std::vector<FilePart>& half, const char* word) {
    const auto made = std::make_shared<PackedDataset>(std::move(half), options_, ends_, name(word));
    made->check_supervised();
    return made;
  };
  return {make(held, "held-out"), make(rest, "training")};
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
    part.file.path = data::name_of(file);
    if (left) *left -= part.tokens.store->counts().records;
    part.add_stretches();
    parts.push_back(std::move(part));
  }
}

// All that is learnt of a record, hashed to 128 bits.
using Content = std::pair<std::uint64_t, std::uint64_t>;
Content content_of(const TokenStore& store, const Stretch& record) {
  Hasher hasher;
  for (std::int64_t doc = record.doc; doc < store.group_end(record.doc); ++doc) {
    hasher.update_int(store.end(doc) - store.begin(doc));
    store.add_content(hasher, doc);
    if (store.is_labelled()) hasher.update_int(store.label(doc).second);
  }
  const std::string digits = hasher.digest128_hex();
  return {std::stoull(digits.substr(0, 16), nullptr, 16), std::stoull(digits.substr(16), nullptr, 16)};
}

void leave_out_repeated(std::vector<FilePart>& parts) {
  struct FirstHalf {
    std::size_t operator()(const Content& content) const { return content.first; }
  };
  std::unordered_set<Content, FirstHalf> seen;
  std::int64_t repeated = 0, all = 0;
  for (FilePart& part : parts) {
    const auto is_known = [&](const Stretch& record) {
      return !seen.insert(content_of(*part.tokens.store, record)).second;
    };
    all += std::ssize(part.stretches);
    part.repeated = static_cast<std::int64_t>(std::erase_if(part.stretches, is_known));
    repeated += part.repeated;
  }
  log::info("deduplicate: {} of {} left out, as an earlier one is the same", repeated, counted(all, "record"));
}

// Flags give all files the same names to ignore, so that one record of them all is enough for each.
void tell_unmet(const std::vector<FilePart>& parts) {
  std::map<data::Unmet::Name, std::vector<std::string>> files;  // that are to have it
  std::set<data::Unmet::Name> met;
  for (const FilePart& part : parts) {
    const data::Unmet wanted = data::Unmet::of(part.file);
    data::Unmet unmet = wanted;
    unmet.meet(part.tokens.store->unread(), part.tokens.store->renamed());
    for (const data::Unmet::Name& name : wanted.left()) {
      files[name].push_back(part.file.path);
      const std::vector<data::Unmet::Name>& left = unmet.left();
      if (!part.tokens.made || std::find(left.begin(), left.end(), name) == left.end()) met.insert(name);
    }
  }
  for (const auto& [name, paths] : files)
    if (!met.contains(name)) data::Unmet(std::vector{name}).tell(some_of(paths));
}

// The rows of a data set, by their places in the endless order.
class PlacedRows final : public RowReader {
 public:
  PlacedRows(const Dataset& data, std::uint64_t seed, bool shuffle, std::int64_t first)
      : data_(data), seed_(seed), shuffle_(shuffle), place_(first) {}
  bool next(HostRow& row) override {
    row = data_.row(data_.row_at(place_, seed_, shuffle_));
    ++place_;
    return true;
  }

 private:
  const Dataset& data_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t place_;
};

Ends ends_of(const Tokenizer& tokenizer, const Dataset::Options& options) {
  return {tokenizer.adds_bos ? tokenizer.bos_id.value_or(-1) : -1,
          options.append_eos || tokenizer.adds_eos ? tokenizer.eos_id.value_or(-1) : -1, tokenizer.bos_id.value_or(-1),
          data::token_vector_texts(options, tokenizer)};
}

}  // namespace

std::unique_ptr<RowReader> Dataset::read(std::uint64_t seed, bool shuffle, std::int64_t first,
                                         const std::string&) const {
  return std::make_unique<PlacedRows>(*this, seed, shuffle, first);
}

void data::check_options(const std::vector<DataFile>& files, const Dataset::Options& options) {
  if (files.empty()) throw Error(ErrorKind::config, "data: no files; expected at least one");
  if (options.max_length < 1 || options.max_length > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::config,
                fmt::format("{}: got {}, expected 1 to 2147483647", option_words("data.max_length"),
                            options.max_length));
  for (const DataFile& entry : files)
    if (!std::isfinite(entry.weight) || entry.weight < 0)
      throw Error(ErrorKind::config, fmt::format("{}: weight {}; expected at least 0", entry.path, entry.weight));
}

std::int64_t data::tokens_in_rows(const Record& record, const RecordTokens& tokens,
                                  const std::function<std::string()>& name, const Tokenizer& tokenizer,
                                  const Dataset::Options& options) {
  TokenStore store;
  add_record(store, record, tokens, 0);
  if (store.docs() == 0) return 0;
  DataReport report;
  const Stretch all{store.begin(0), store.end(store.docs() - 1), 0};
  const std::int32_t bos = ends_of(tokenizer, options).starts;
  const auto name_of = [&](std::int64_t) { return name(); };
  const RowTable rows = cut_and_pack(store, {all}, options, bos, name_of, report);
  std::int64_t count = 0;
  for (const Piece& piece : rows.pieces) count += piece.length;
  return count;
}

std::shared_ptr<const Dataset> data::pack_window(std::shared_ptr<const TokenStore> store,
                                                 const std::string& title,
                                                 std::function<std::string(std::int64_t record)> names,
                                                 const Tokenizer& tokenizer, const Dataset::Options& options) {
  FilePart part{.file = {}, .tokens = {std::move(store), ""}, .names = std::move(names)};
  part.file.path = title;
  part.add_stretches();
  return std::make_shared<PackedDataset>(std::vector<FilePart>{std::move(part)}, options, ends_of(tokenizer, options),
                                         "");
}

std::shared_ptr<const Dataset> Dataset::make(const std::vector<DataFile>& files, const Tokenizer& tokenizer,
                                             const Options& options) {
  data::check_options(files, options);
  for (const DataFile& entry : files)
    if (entry.stream)
      throw Error(ErrorKind::config, entry.path + ": stream: only what is trained on is read so; leave it out");
  std::vector<FilePart> parts;
  for (const DataFile& entry : files) add_parts(parts, entry, tokenizer, options);
  tell_unmet(parts);
  if (options.deduplicate) leave_out_repeated(parts);
  const auto made = std::make_shared<PackedDataset>(std::move(parts), options, ends_of(tokenizer, options), "");
  made->check_supervised();
  return made;
}

std::shared_ptr<const Dataset> make_dataset(const std::vector<Record>& records, const std::string& name,
                                            const Tokenizer& tokenizer, const Dataset::Options& options) {
  FilePart part{.file = {}, .tokens = data::tokens_of(records, name, tokenizer, options)};
  part.file.path = name;
  data::check_options({part.file}, options);
  part.add_stretches();
  std::vector<FilePart> parts{std::move(part)};
  if (options.deduplicate) leave_out_repeated(parts);
  const auto made = std::make_shared<PackedDataset>(std::move(parts), options, ends_of(tokenizer, options), "");
  made->check_supervised();
  return made;
}

}  // namespace hone
