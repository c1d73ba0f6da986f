// Data: files -> Record -> Tokens -> Row -> HostBatch. Torch-free; every position of the stream is found in O(1).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hone/config.h"
#include "hone/text.h"

namespace hone {

class Random;  // hone/random.h

// The forms of records.
struct TextRecord {
  std::string text;
};
struct PromptRecord {
  std::string prompt, completion;
};
struct IdsRecord {
  std::vector<std::int32_t> input_ids;
  std::optional<std::vector<std::int32_t>> labels = {};  // not shifted, -100 = none; default: the ids
};
struct ChatRecord {
  Conversation chat;
  std::vector<int> chosen = {};  // of each message: 1 is learnt, 0 is not, -1 not said; empty: none says
};
struct LabelledRecord {
  std::string text;
  std::optional<std::string> text_pair = {};
  std::string label;  // a name, or a number as text
};

// One example as read.
struct Record {
  std::variant<TextRecord, PromptRecord, IdsRecord, ChatRecord, LabelledRecord> content = {};
  std::vector<std::string> unread = {};  // fields that nobody reads, each with the first record that has it
  std::int64_t line = 0;                 // 1-based line or row in its file
  template <class Form>
  const Form* as() const {
    return std::get_if<Form>(&content);
  }
};

// What records are read for, which decides the fields that they must have.
enum class RecordKind {
  language,  // what a language model learns: texts, prompts with completions, ids, conversations
  labelled,  // a text, or two, with a label
};
template <>
inline constexpr auto config::enum_names<RecordKind> = std::to_array<std::pair<RecordKind, std::string_view>>(
    {{RecordKind::language, "language"}, {RecordKind::labelled, "labelled"}});

// A file to read records from, with the recipe's renamed columns ({"text": "story"} reads the field "story" as text).
struct SourceFile {
  std::string path;
  std::map<std::string, std::string> columns;
  std::optional<bool> header;  // CSV and TSV: first line names the columns; default: decided by its content
  std::vector<std::string> ignore = {};  // fields that other kinds of training use and that are to be passed over
  RecordKind records = RecordKind::language;
};

// Reads one file format; plug-in (src/data/sources). Streams: never holds more than a block of the file.
class HONE_API Source {
 public:
  static constexpr std::string_view kInterface = "source";
  virtual ~Source() = default;
  virtual bool next(Record& record) = 0;  // false: no more; throws Error(data) with path:line
};

// Where a document lies in a batch. Documents are contiguous and never see each other.
struct Doc {
  std::int32_t row = 0, begin = 0, end = 0;
  std::int64_t record = 0;  // which record it came from (Dataset::record_name)
  std::int32_t role = 0, group = 0;
};

// A further column of a batch: a number for each of its tokens ([rows, length], 0 on padding) or of its documents.
struct HostColumn {
  enum class Per { token, document } per = Per::token;
  std::vector<std::int64_t> values = {};
};

// A batch in host memory, [rows, length] row-major. labels: the target AT t (already shifted), -100 = none.
struct HostBatch {
  std::int64_t rows = 0, length = 0;
  std::vector<std::int64_t> ids, labels, segments,
      positions;                            // segment 0 is padding, documents count from 1 in each row
  std::vector<float> weight;                // 0 exactly where labels is -100
  std::vector<Doc> docs;                    // in order of (row, begin); padding belongs to none
  // "label": of each document, the index of its label. "token_type_ids": there where a document has two texts.
  std::map<std::string, HostColumn> extra;
  std::int64_t tokens = 0, supervised = 0;  // ids that are not padding; labels that are not -100
};

enum class Overlong { keep_start, keep_end, split, drop, error };
enum class Packing { best_fit, concat, none };
enum class Loss { all, assistant, last, completion };
template <>
inline constexpr auto config::enum_names<Loss> = std::to_array<std::pair<Loss, std::string_view>>(
    {{Loss::all, "all"}, {Loss::assistant, "assistant"}, {Loss::last, "last"}, {Loss::completion, "completion"}});
template <>
inline constexpr auto config::enum_names<Overlong> =
    std::to_array<std::pair<Overlong, std::string_view>>({{Overlong::keep_start, "keep_start"},
                                                          {Overlong::keep_end, "keep_end"},
                                                          {Overlong::split, "split"},
                                                          {Overlong::drop, "drop"},
                                                          {Overlong::error, "error"}});
template <>
inline constexpr auto config::enum_names<Packing> = std::to_array<std::pair<Packing, std::string_view>>(
    {{Packing::best_fit, "best_fit"}, {Packing::concat, "concat"}, {Packing::none, "none"}});

// What happened to the records of a data set; printed and shown by `hone inspect data`.
struct DataReport {
  std::int64_t files = 0;
  std::int64_t records = 0, empty = 0, cut = 0, split = 0, dropped = 0, cut_tokens = 0;
  std::int64_t tokens = 0, supervised = 0, rows = 0, unsupervised_records = 0;
  std::int64_t cut_prompts = 0;      // of `cut`: records whose prompt lost its start
  std::int64_t lost_supervised = 0;  // learnt tokens that were cut off or dropped
  std::int64_t seams = 0;            // learnt tokens that hold the end of a prompt and the beginning of its completion
  std::int64_t pieces = 0;           // documents, or parts of them, that rows were packed from
  std::map<std::string, std::vector<std::string>> unread_fields = {};  // of each file that was read, not cached
  std::map<std::string, std::int64_t> labels = {};                     // how many documents in rows have each label
};

struct DataFile {
  std::string path;
  double weight = 1;  // 1: every row once per epoch; 2: twice; 0.5: a different half each epoch
  std::map<std::string, std::string> columns;
  std::optional<bool> header;
  std::optional<std::int64_t> max_samples;
  std::vector<std::string> ignore;
  static constexpr std::string_view kShorthand = "path";
  static constexpr auto fields() {
    using C = DataFile;
    return std::tuple{
        field("path", &C::path,
              "File to read: .jsonl, .json, .txt, .csv, .tsv or .parquet, also .gz and .zst; a folder stands for the "
              "files in it, a pattern such as data/*.jsonl for those that fit it."),
        field("weight", &C::weight,
              "How often each of its rows is seen per epoch; 0.5 takes a different half each epoch.",
              config::at_least(0)),
        field("columns", &C::columns,
              "Renamed fields, as {text: story}: read the field `story` as `text`; `a.b` is field b inside a, 2 the "
              "second column."),
        field("header", &C::header,
              "CSV and TSV: whether the first line names the columns; without it they are 1, 2, ...; default: by its "
              "content."),
        field("max_samples", &C::max_samples,
              "Only this many records, the first ones (of a folder or pattern: of all its files in order of their "
              "names); default: all.",
              config::at_least(1)),
        field("ignore", &C::ignore,
              "Fields that other kinds of training use, such as label or chosen, and that may be passed over here; "
              "without it they are an error.")};
  }
};

// A document in a row. Ids and targets have the same length; a target is the label AT its place (already shifted).
struct HostDoc {
  std::vector<std::int64_t> ids, targets;
  std::int64_t record = 0;                                            // Dataset::record_name
  std::map<std::string, std::vector<std::int64_t>> per_token = {};    // as HostBatch::extra, of this document
  std::map<std::string, std::int64_t> per_document = {};
};
using HostRow = std::vector<HostDoc>;  // documents that share a row; they never see each other

// Rows, padded on the right to the longest of them.
HONE_API HostBatch pad(const std::vector<HostRow>& rows, std::int32_t pad_id);

struct CollatorInfo {
  const Tokenizer& tokenizer;
  std::int64_t vocab_size = 0;  // of the model
  std::int32_t pad_id = 0;
};

// Plug-in (src/collators): makes a batch of rows. It keeps nothing; any thread may use it.
class HONE_API Collator {
 public:
  static constexpr std::string_view kInterface = "collator";
  virtual ~Collator() = default;
  // `random` is of the run's seed and of this batch alone, so that a resumed run makes the same batches.
  virtual HostBatch collate(std::vector<HostRow> rows, const Random& random) const = 0;
};

// Tokenised, packed rows of some files; immutable, shared by loaders of any thread.
class HONE_API Dataset {
 public:
  struct Options {
    std::int64_t max_length = 1024;
    Overlong overlong = Overlong::split;
    Packing packing = Packing::best_fit;
    bool append_eos = true;       // text and completions end with the tokenizer's eos, supervised, if it has one
    std::string cache_folder;     // "" = no cache on disk
    std::int64_t vocab_size = 0;  // of the model: a larger id is an error; 0 = not checked
    // Which tokens are learnt; nothing: all of a text, a pair's completion, the assistant's turns of a conversation.
    std::optional<Loss> loss = {};
    RecordKind records = RecordKind::language;
    std::vector<std::string> labels = {};  // of labelled records, in order; another is an error; empty: those there are
  };
  // Reads, tokenises (or takes from the cache), cuts and packs. Throws Error(data).
  static std::shared_ptr<const Dataset> make(const std::vector<DataFile>& files, const Tokenizer& tokenizer,
                                             const Options& options);
  virtual ~Dataset() = default;

  virtual std::int64_t rows() const = 0;        // packed rows, before weights
  virtual std::int64_t epoch_rows() const = 0;  // rows per epoch, weights applied
  // The row at `position` of the endless stream (epoch = position / epoch_rows), a function of seed and position.
  virtual std::int64_t row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const = 0;
  virtual HostRow row(std::int64_t row) const = 0;
  std::vector<HostRow> take(const std::vector<std::int64_t>& rows) const;
  HostBatch batch(const std::vector<std::int64_t>& rows, std::int32_t pad_id) const { return pad(take(rows), pad_id); }
  virtual std::string record_name(std::int64_t record) const = 0;  // "data/train.jsonl:17"
  virtual const DataReport& report() const = 0;
  // Of labelled records: what "label" of a batch counts in. As the options say, else by value (numbers) or by name.
  virtual const std::vector<std::string>& labels() const = 0;
  virtual std::string fingerprint() const = 0;  // of file contents, tokenizer and options
  // Two data sets over the same records: first a held-out share, chosen by seed and record number, second the rest. Of
  // a file that is a single text the last share is held out, counted in tokens (with the bytes tokenizer: bytes),
  // rounded down; each of its tokens is scored. Throws Error(data) if a part would be empty.
  virtual std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split(double held_out,
                                                                                          std::uint64_t seed) const = 0;
};

// The batches of step after step, made ahead on a background thread. One thread calls next() and seek().
class HONE_API Loader {
 public:
  struct Options {
    std::int64_t batch_size = 8, accumulate = 1;
    std::uint64_t seed = 1;
    bool shuffle = true;
    std::int32_t pad_id = 0;
    std::shared_ptr<const Collator> collator = {};  // null: pad()
    int ahead = 2;  // groups made in advance; 0 = made by the caller's thread
  };
  // Throws Error(data) where an epoch has fewer rows than a batch; check() does so alone, before anything is made.
  Loader(std::shared_ptr<const Dataset> data, const Options& options);
  static void check(const Dataset& data, const Options& options);
  ~Loader();
  void seek(std::int64_t step);   // O(1)
  std::vector<HostBatch> next();  // `accumulate` batches; rethrows what the background thread threw
  double epoch_at(std::int64_t step) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone
