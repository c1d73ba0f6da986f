// Streams: windows of records, and where reading goes on from.
#include "data/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/cpus.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "data/cache.h"
#include "data/embedded_tokens.h"
#include "data/files.h"
#include "data/indexed_line.h"
#include "data/labels.h"
#include "data/inspect.h"
#include "data/questions.h"
#include "data/stream_entry.h"
#include "data/stream_position.h"
#include "data/token_vector_texts.h"
#include "data/tokenise.h"
#include "data/unmet.h"
#include "data/window.h"
#include "hone/config_read.h"
#include "io/pipe.h"

namespace hone::data {
namespace {

// An entry of data.train.
struct Entry {
  DataFile given;
  std::vector<DataFile> files = {};
  std::int64_t first_file = 0;  // of all entries' files
};

using Paths = std::vector<std::string>;

constexpr std::int64_t kMostIndexed = 1 << 11;  // files whose records' numbers have room for an index in a line
constexpr std::int64_t kFirstRecords = 256;      // of an entry, whose sizes those of all are taken for
constexpr std::uint64_t kMostPerRowToken = 16;  // tokens that a window reads for each that stands in its rows

// Records of all files are numbered in one row, so that a number says file and line.
std::string record_name_of(const Paths& paths, std::int64_t record) {
  const auto files = std::ssize(paths);
  return fmt::format("{}:{}", paths[static_cast<std::size_t>(record % files)], line_words(record / files));
}

class Stream final : public TrainingData {
 public:
  Stream(const std::vector<DataFile>& files, std::shared_ptr<const Tokenizer> tokenizer, Dataset::Options options);
  std::unique_ptr<RowReader> read(std::uint64_t seed, bool shuffle, std::int64_t first,
                                  const std::string& position) const override;
  std::string record_name(std::int64_t record) const override { return record_name_of(*paths_, record); }
  const std::vector<std::string>& labels() const override { return options_.labels; }
  std::string fingerprint() const override;

  const std::vector<Entry>& entries() const { return entries_; }
  const Dataset::Options& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const Paths>& paths() const { return paths_; }
  std::string title() const;
  std::optional<RecordSizes> first_sizes() const;

 private:
  std::vector<std::int64_t> first_documents(const Entry& entry) const;

  std::vector<Entry> entries_;  // that have a weight
  std::shared_ptr<const Tokenizer> tokenizer_;
  Dataset::Options options_;
  std::shared_ptr<const Paths> paths_;
  mutable std::once_flag looked_;
  mutable std::optional<RecordSizes> first_sizes_;
};

Stream::Stream(const std::vector<DataFile>& files, std::shared_ptr<const Tokenizer> tokenizer, Dataset::Options options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  check_options(files, options_);
  if (options_.problem_type == ProblemType::regression && options_.labels.empty()) options_.labels = {"LABEL_0"};
  if (options_.records == RecordKind::question) options_.labels = answer_places();
  if ((options_.records == RecordKind::labelled || are_of_tokens(options_.records)) && options_.labels.empty())
    throw Error(ErrorKind::config, "data.train: a stream, whose labels are not known before it is read")
        .hint("name them, for instance objective: {type: classification, labels: [no, yes]}, or write it to a file");
  Paths paths;
  for (const DataFile& given : files) {
    if (given.weight == 0) continue;
    Entry entry{.given = given, .first_file = std::ssize(paths)};
    FoundFiles found = files_of(given, true);
    log_found(given, found);
    for (DataFile& file : found.files) {
      if (file.path == "-") file.path = "/dev/stdin";
      if (io::is_pipe(file.path) && std::find(paths.begin(), paths.end(), file.path) != paths.end())
        throw Error(ErrorKind::config, fmt::format("data.train: {}: given twice; a pipe can be read once", file.path));
      paths.push_back(name_of(file));
      entry.files.push_back(std::move(file));
    }
    entries_.push_back(std::move(entry));
  }
  if (entries_.empty()) throw Error(ErrorKind::config, "data.train: every weight is 0; expected one above it");
  paths_ = std::make_shared<Paths>(std::move(paths));
}

std::string Stream::title() const {
  return paths_->size() == 1 ? paths_->front() : fmt::format("{} and {} more", paths_->front(), paths_->size() - 1);
}

// Of each of an entry's first records.
std::vector<std::int64_t> Stream::first_documents(const Entry& entry) const {
  const auto is_gone = [](const DataFile& file) { return io::is_pipe(file.path); };
  std::vector<std::int64_t> all;
  if (std::any_of(entry.files.begin(), entry.files.end(), is_gone)) return all;
  const auto check = [] {
    if (StopSignal::stop_requested()) StopSignal::check("looking at data");
  };
  EntryReader reader(entry.files, options_.records, options_.problem_type, check);
  try {
    for (Record record; std::ssize(all) < kFirstRecords && reader.next(record) && reader.mark().pass == 0;)
      if (const auto* texts = record.as<EmbeddingRecord>()) all.push_back(documents_of(*texts, options_.records));
  } catch (const Error& error) {  // the step that reads the record says where it is
    if (error.kind() != ErrorKind::data) throw;
  }
  return all;
}

std::optional<RecordSizes> Stream::first_sizes() const {
  std::call_once(looked_, [&] {
    if (!are_texts(options_.records)) return;
    std::vector<std::int64_t> all;
    for (const Entry& entry : entries_)
      for (const std::int64_t documents : first_documents(entry)) all.push_back(documents);
    if (all.empty()) return;
    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
    first_sizes_ = {*std::max_element(all.begin(), all.end()), sum / static_cast<double>(all.size())};
  });
  return first_sizes_;
}

std::string Stream::fingerprint() const {
  Hasher hasher;
  hasher.update_field("hone stream 2").update_field(tokenizer_->fingerprint);
  // A model's files may say them, too.
  for (const std::optional<std::int32_t>& id : {tokenizer_->bos_id, tokenizer_->eos_id})
    hasher.update_int(static_cast<std::uint64_t>(id.value_or(-1)));
  for (const std::int64_t number :
       {options_.max_length, static_cast<std::int64_t>(options_.overlong), static_cast<std::int64_t>(options_.packing),
        options_.window, static_cast<std::int64_t>(options_.records), std::int64_t{options_.append_eos},
        options_.loss ? 1 + static_cast<std::int64_t>(*options_.loss) : 0})
    hasher.update_int(static_cast<std::uint64_t>(number));
  for (const std::string& label : options_.labels) hasher.update_field(label);
  add_token_vectors(options_, *tokenizer_, hasher);
  if (const TokenLabels& of_tokens = options_.token_labels; are_of_tokens(options_.records))
    hasher.update_int(of_tokens.all)
        .update_field(of_tokens.step_separator)
        .update_int(static_cast<std::uint64_t>(of_tokens.max_completion_length.value_or(0)))
        .update_int(of_tokens.last_step_only);
  if (options_.records == RecordKind::question)
    hasher.update_int(static_cast<std::uint64_t>(options_.questions.doc_stride));
  if (options_.records == RecordKind::seq2seq)
    hasher.update_int(static_cast<std::uint64_t>(options_.targets.max_length.value_or(0)))
        .update_int(static_cast<std::uint64_t>(options_.targets.start))
        .update_field(options_.targets.source_language)
        .update_field(options_.targets.target_language);
  if (options_.problem_type != ProblemType::single_label_classification)
    hasher.update_field("problem type").update_int(static_cast<std::uint64_t>(options_.problem_type));
  if (options_.teacher_log_probs)
    hasher.update_field("log-probabilities of a teacher")
        .update_int(static_cast<std::uint64_t>(*options_.teacher_log_probs));
  if (!options_.chat_template_kwargs.empty())
    hasher.update_field("variables of the chat template").update_field(options_.chat_template_kwargs);
  if (options_.pictures) hasher.update_field("pictures").update_field(options_.pictures->fingerprint());
  for (const Entry& entry : entries_) {  // what they hold is compared when reading goes on, whatever their paths
    DataFile options = entry.given;
    options.path.clear();
    hasher.update_field(config::to_json(config::write(options), 0));
  }
  return hasher.digest128_hex();
}

// An entry while it is read: what next() gave last, and where the window began.
class Live {
 public:
  struct Taken {
    Pipeline::Item item = {};
    StreamMark mark = {};
  };

  Live(const Entry& entry, const Tokenising& how, std::size_t threads, std::function<void()> waiting)
      : entry_(entry),
        reader_(entry.files, how.records, how.problem_type, std::move(waiting), how.pictures != nullptr,
                how.chat_template_kwargs),
        pipeline_([this](Pipeline::Item& item) { return read(item); }, how, threads) {
    reader_.set_teacher(how.teacher_log_probs.has_value(), how.teacher_temperature);
  }

  void go_to(const EntryPosition& position) {
    reader_.go_to(position.from, position.at);
    at_ = position.at;
    start_ = position;
    tokens_ = position.tokens;
    pass_start_ = position.pass_start;
    tokens_in_pass_ = in_rows_in_pass_ = position.at.records > 0 ? 1 : 0;
    restored_ = true;
    unmet_ = Unmet();  // nobody sees what came before
  }

  // What is taken from here on is of the next window; where it has been read before, until `read`.
  void begin_window() {
    first_pass_.reset();
    if (std::exchange(restored_, false)) return;
    const bool seeks = start_.at.pass == at_.pass && (start_.at.place || start_.at.records == 0);
    start_ = {at_, seeks ? start_.at : pass_start_, pass_start_, tokens_, {}};
  }
  // Of the window.
  EntryPosition position() const {
    EntryPosition now = start_;
    now.read = at_;
    return now;
  }
  bool is_behind(const StreamMark& read) const { return at_.pass == read.pass && at_.records == read.records; }
  void check_read(const StreamMark& read) const {
    if (!is_behind(read) || at_.hash != read.hash) throw other_data(name_of(entry_.given), read.records);
  }

  // false: the end.
  bool take(Taken& taken) {
    if (held_) {
      taken = std::move(*held_);
      held_.reset();
      return true;
    }
    if (!pipeline_.next(taken.item)) return false;
    taken.mark = std::move(marks_.front());
    marks_.pop_front();
    return true;
  }
  void put_back(Taken taken) { held_ = std::move(taken); }
  // Whether it begins again within this window.
  bool is_new_pass(const Taken& taken) const { return first_pass_ && taken.mark.pass != *first_pass_; }

  // in_rows: of its tokens.
  void count(const Taken& taken, std::int64_t in_rows) {
    if (taken.mark.pass != at_.pass) {
      if (tokens_in_pass_ == 0)
        throw Error(ErrorKind::data, fmt::format("{}: every record is empty", name_of(entry_.given)));
      if (in_rows_in_pass_ == 0)
        throw Error(ErrorKind::data,
                    fmt::format("{}: no supervised token in {}", name_of(entry_.given), counted(at_.records, "record")))
            .hint(kNothingLearnt);
      if (at_.pass == 0) log::info("{}: {}; it begins again", name_of(entry_.given), counted(at_.records, "record"));
      tell_unmet();
      pass_start_ = {.pass = taken.mark.pass, .hash = at_.hash};
      tokens_in_pass_ = in_rows_in_pass_ = 0;
    }
    if (!first_pass_) first_pass_ = taken.mark.pass;
    at_ = taken.mark;
    unmet_.meet(taken.item.record.unread, taken.item.record.renamed);
    std::int64_t tokens = std::ssize(taken.item.tokens.ids);
    for (const RecordTokens& one : taken.item.tokens.companions) tokens += std::ssize(one.ids);
    tokens_ += in_rows;
    tokens_in_pass_ += tokens;
    in_rows_in_pass_ += in_rows;
  }
  // All records have been read.
  void tell_unmet() { unmet_.tell(name_of(entry_.given)); }
  double tokens_by_weight() const { return static_cast<double>(tokens_) / entry_.given.weight; }
  const Entry& entry() const { return entry_; }

 private:
  bool read(Pipeline::Item& item) {
    if (!reader_.next(item.record)) return false;
    item.path = name_of(reader_.file());
    marks_.push_back(reader_.mark());
    return true;
  }

  const Entry& entry_;
  Unmet unmet_ = Unmet::of(entry_.given);
  EntryReader reader_;
  std::deque<StreamMark> marks_;  // of what the pipeline has read and not given yet
  Pipeline pipeline_;
  std::optional<Taken> held_;
  StreamMark at_, pass_start_;
  EntryPosition start_;
  bool restored_ = false;    // start_ is that of the window that comes next
  std::int64_t tokens_ = 0;  // in rows
  std::int64_t tokens_in_pass_ = 0, in_rows_in_pass_ = 0;
  std::optional<std::int64_t> first_pass_;  // of the window
};

class StreamReader final : public RowReader {
 public:
  StreamReader(const Stream& stream, std::uint64_t seed, bool shuffle, std::int64_t first, const StreamPosition& from)
      : stream_(stream), how_(stream.tokenizer(), stream.options()), seed_(seed), shuffle_(shuffle) {
    const std::size_t count = stream.entries().size();
    const auto threads = static_cast<std::size_t>(std::min(threads_by_cpu(cpus()), 16));
    const std::size_t each = std::max<std::size_t>(1, threads / count);
    for (const Entry& entry : stream.entries())
      live_.push_back(std::make_unique<Live>(entry, how_, each, [this] { check(); }));
    counts_all_ = from.window < 0 ? first == 0 : from.counts.has_value();
    if (from.window < 0) return;
    if (from.entries.size() != count) throw Error(ErrorKind::data, "data.train: not the entries of the run so far");
    for (std::size_t i = 0; i < count; ++i) live_[i]->go_to(from.entries[i]);
    index_ = from.window - 1;
    total_ = from.counts.value_or(DataReport());
    any_rows_ = true;
    fill(&from);
    row_ = std::min(from.row, window_->rows());
  }
  ~StreamReader() override { say_counts(); }

  bool next(HostRow& row) override {
    while (window_ == nullptr || row_ == window_->rows()) {
      if (ended_) return false;
      fill();
    }
    row = window_->row(window_->row_at(index_ * window_->rows() + row_, seed_, shuffle_));
    ++row_;
    return true;
  }
  std::string position() const override {
    StreamPosition now{.window = index_, .row = row_, .counts = counts_all_ ? std::optional(before_) : std::nullopt};
    for (const auto& live : live_) now.entries.push_back(live->position());
    return to_json(now);
  }
  void cancel() override { cancelled_ = true; }

  void fill(const StreamPosition* again = nullptr);
  const std::shared_ptr<const Dataset>& window() const { return window_; }

 private:
  void check() const {
    if (cancelled_) throw Error(kStopped, "reading data: cancelled");
    if (StopSignal::stop_requested()) StopSignal::check("waiting for data");
  }
  Live& hungriest() const;
  std::int64_t add(TokenStore& store, Live& live, const Live::Taken& taken);
  bool is_filled(const TokenStore& store, std::int64_t in_rows, const StreamPosition* again) const;
  void tell_unread(const std::string& path, const std::vector<std::string>& names);
  void count_window(bool passed);
  void say_counts() const;

  const Stream& stream_;
  const Tokenising how_;
  const std::uint64_t seed_;
  const bool shuffle_;
  std::vector<std::unique_ptr<Live>> live_;
  std::int64_t index_ = -1, row_ = 0;  // of the window; rows of it that have been given
  std::shared_ptr<const Dataset> window_;
  bool ended_ = false, any_rows_ = false;
  DataReport before_, total_;  // of the windows before this one; with it
  bool counts_all_ = true;     // also what an earlier process has read
  std::set<std::string> told_;
  std::atomic<bool> cancelled_ = false;
};

Live& StreamReader::hungriest() const {
  return **std::min_element(live_.begin(), live_.end(),
                            [](const auto& a, const auto& b) { return a->tokens_by_weight() < b->tokens_by_weight(); });
}

void StreamReader::tell_unread(const std::string& path, const std::vector<std::string>& names) {
  std::vector<std::string> fresh;
  for (const std::string& name : names)
    if (told_.insert(path + '\0' + name).second) fresh.push_back(name);
  if (!fresh.empty()) log::info("{}: fields that are not read: {}", path, list_names(fresh, 20));
}

// Returns how many of its tokens rows will have.
std::int64_t StreamReader::add(TokenStore& store, Live& live, const Live::Taken& taken) {
  const Record& record = taken.item.record;
  const std::int64_t files = std::ssize(*stream_.paths());
  const std::int64_t line = files <= kMostIndexed ? record.line : line_of(record.line);
  const std::int64_t number = line * files + live.entry().first_file + taken.mark.file;
  const std::int64_t in_rows = tokens_in_rows(
      record, taken.item.tokens, [&] { return stream_.record_name(number); }, stream_.tokenizer(), stream_.options());
  live.count(taken, in_rows);
  tell_unread(taken.item.path, record.unread);
  add_record(store, record, taken.item.tokens, number, taken.item.path);
  return in_rows;
}

// Enough for its rows, or as much as memory is given where little of it comes to stand in rows. One that is filled
// again ends where it did, although the data may not end there now.
bool StreamReader::is_filled(const TokenStore& store, std::int64_t in_rows, const StreamPosition* again) const {
  const std::int64_t wanted = stream_.options().window * stream_.options().max_length;
  if (in_rows >= wanted || store.size() / kMostPerRowToken >= static_cast<std::uint64_t>(wanted)) return true;
  if (again == nullptr) return false;
  for (std::size_t i = 0; i < live_.size(); ++i)
    if (!live_[i]->is_behind(again->entries[i].read)) return false;
  return true;
}

// The next window, which may be without rows; again: the one there.
void StreamReader::fill(const StreamPosition* again) {
  ++index_;
  row_ = 0;
  window_.reset();  // so that there are never two
  for (const auto& live : live_) live->begin_window();
  const Dataset::Options& options = stream_.options();
  auto store = std::make_shared<TokenStore>();
  bool passed = false;
  for (std::int64_t in_rows = 0; !is_filled(*store, in_rows, again);) {
    Live& live = hungriest();
    Live::Taken taken;
    if (!live.take(taken)) {
      ended_ = true;
      log::info("{}: the data have ended", name_of(live.entry().given));
      live.tell_unmet();
      break;
    }
    if (live.is_new_pass(taken)) {
      passed = true;
      if (live_.size() == 1) {
        live.put_back(std::move(taken));
        break;
      }
    }
    in_rows += add(*store, live, taken);
  }
  for (std::size_t i = 0; again != nullptr && i < live_.size(); ++i) live_[i]->check_read(again->entries[i].read);
  const auto names = [paths = stream_.paths()](std::int64_t record) { return record_name_of(*paths, record); };
  check_ids(*store, [&](std::int64_t doc) { return names(store->line(doc)); }, options.vocab_size);
  window_ = pack_window(store, stream_.title(), names, stream_.tokenizer(), options);
  count_window(passed);
}

// passed: an entry has begun again within it, or does now.
void StreamReader::count_window(bool passed) {
  const DataReport& now = window_->report();
  before_ = total_;
  for (const auto& [name, one] : kWindowCounts) total_.*one += now.*one;
  any_rows_ |= now.rows > 0;
  if (now.rows > 0 || (ended_ && any_rows_)) return;
  if (!passed && !ended_) {
    if (told_.insert("no row").second)
      log::warning("{}: no supervised token in {}", stream_.title(), counted(now.records, "record"));
    return;
  }
  throw Error(ErrorKind::data,
              fmt::format("{}: no supervised token in {}", stream_.title(), counted(total_.records, "record")))
      .hint(kNothingLearnt);
}

void StreamReader::say_counts() const {
  if (total_.records == 0) return;
  std::string text;
  for (const auto& [what, count] : report_lines(total_))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", human_count(static_cast<double>(count)), what);
  log::info("{}: read {}: {}", stream_.title(), counts_all_ ? "so far" : "since the run goes on", text);
}

// Without a position a stream is read from its beginning, which is where new data begin in the middle of a run.
std::unique_ptr<RowReader> Stream::read(std::uint64_t seed, bool shuffle, std::int64_t first,
                                        const std::string& position) const {
  return std::make_unique<StreamReader>(*this, seed, shuffle, first,
                                        position.empty() ? StreamPosition() : stream_position_from_json(position));
}

}  // namespace

bool is_stream(const std::vector<DataFile>& files) {
  return std::any_of(files.begin(), files.end(), [](const DataFile& file) {
    const bool generated = file.path.empty() && !file.source.type.empty();
    return file.stream || generated || is_read_once(file.path);
  });
}

std::shared_ptr<const TrainingData> open_stream(const std::vector<DataFile>& files,
                                                std::shared_ptr<const Tokenizer> tokenizer,
                                                const Dataset::Options& options) {
  if (options.deduplicate)
    throw Error(ErrorKind::config, "data.deduplicate: data.train is a stream, of which nobody remembers all records");
  return std::make_shared<Stream>(files, std::move(tokenizer), options);
}

std::optional<RecordSizes> sizes_of_first(const TrainingData& data) {
  const auto* stream = dynamic_cast<const Stream*>(&data);  // a program's own kind of data says nothing
  return stream ? stream->first_sizes() : std::nullopt;
}

std::shared_ptr<const Dataset> first_window(const TrainingData& stream) {
  StreamReader reader(static_cast<const Stream&>(stream), 0, false, 0, {});
  while (reader.window() == nullptr || reader.window()->rows() == 0) reader.fill();
  return reader.window();
}

}  // namespace hone::data
