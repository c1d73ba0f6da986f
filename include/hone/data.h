// Data: Record -> Tokens -> Row -> HostBatch, and the data sets and loaders that do it. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/data_report.h"
#include "hone/pictures.h"
#include "hone/source.h"
#include "hone/text.h"
#include "hone/token_vectors.h"

namespace hone {

class Random;        // hone/random.h
struct QuestionDoc;  // hone/questions.h

// What a document is to the others of its group; answer: one of several to the same prompt.
enum class Role : std::int32_t { none, chosen, rejected, answer, query, source, target };
template <>
inline constexpr auto config::enum_names<Role> = std::to_array<std::pair<Role, std::string_view>>(
    {{Role::none, "none"}, {Role::chosen, "chosen"}, {Role::rejected, "rejected"}, {Role::answer, "answer"},
     {Role::query, "query"}, {Role::source, "source"}, {Role::target, "target"}});

// Where a document lies in a batch. Documents are contiguous and never see each other.
struct Doc {
  std::int32_t row = 0, begin = 0, end = 0;
  std::int64_t record = 0;  // which record it came from (TrainingData::record_name)
  Role role = Role::none;
  std::int32_t group = 0;   // documents of one number belong together; counted from 0 in each batch
  std::int32_t shared = 0;  // of a group's later documents: so many of its first tokens are those of the group's first
                            // one, which lies in the same row, and have no label in either; set by to_batch()
};

// A further column of a batch: a number for each of its tokens ([rows, length], 0 on padding) or of its documents; or
// some numbers for each document, [documents, width], which are no indices.
struct HostColumn {
  enum class Per { token, document } per = Per::token;
  std::vector<std::int64_t> values = {};
  std::int64_t width = 0;  // 0: there are `values`, else
  std::vector<double> numbers = {};
};

// A batch in host memory, [rows, length] row-major. labels: the target AT t (already shifted; of tagged records and
// steps the index of token t's own label), -100 = none.
struct HostBatch {
  std::int64_t rows = 0, length = 0;
  std::vector<std::int64_t> ids, labels, segments,
      positions;                            // segment 0 is padding, documents count from 1 in each row
  std::vector<float> weight;                // 0 exactly where labels is -100
  std::vector<Doc> docs;                    // in order of (row, begin); padding belongs to none
  // "label": of each document, the index of its label; of several labels numbers, 1 where it has one, and of regression
  // what is to be said of it. "characters": of answers to choose from, how many they have. "score": of texts to embed
  // or to rank, how alike they are to be or what each is worth, and 1 (0, 0: nobody says). "class": of texts to embed a
  // number that those of one label have, not 0 (0: none). "token_type_ids": there where a document has two texts.
  std::map<std::string, HostColumn> extra;
  std::int64_t tokens = 0, supervised = 0;  // ids that are not padding; labels that are not -100
  HostPictures pictures = {};
  TaughtTargets taught = {};  // of each place
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

struct DataFile {
  std::string path;
  double weight = 1;  // 1: every row once per epoch; 2: twice; 0.5: a different half each epoch
  std::map<std::string, std::string> columns;
  std::optional<bool> header;
  std::optional<std::int64_t> max_samples;
  std::vector<std::string> ignore;
  bool stream = false;
  config::Choice<Source> source;
  std::string image_folder = {};
  std::map<std::string, config::Open> chat_template_kwargs = {};
  std::optional<double> teacher_temperature = {};
  static constexpr std::string_view kShorthand = "path";
  static constexpr auto fields() {
    using C = DataFile;
    return std::tuple{
        field("path", &C::path,
              "File to read: .jsonl, .json, .txt, .csv, .tsv or .parquet, also .gz and .zst; a folder stands for the "
              "files in it, a pattern such as data/*.jsonl for those that fit it; a pipe, or - for standard input, "
              "is read as a stream."),
        field("weight", &C::weight,
              "How often each of its rows is seen per epoch, in whole rows; 0.5 takes a different half each epoch. Of "
              "streams: its share of the tokens, beside the weights of the others.",
              config::at_least(0)),
        field("columns", &C::columns,
              "Renamed fields, as {text: story}: read the field `story` as `text`; `a.b` is field b inside a, 2 the "
              "second column, and what has {{ or {% in it a Jinja template over the record's fields."),
        field("header", &C::header,
              "CSV and TSV: whether the first line names the columns; without it they are 1, 2, ...; default: by its "
              "content."),
        field("max_samples", &C::max_samples,
              "Only this many records, the first ones (of a folder or pattern: of all its files in order of their "
              "names); default: all.",
              config::at_least(1)),
        field("ignore", &C::ignore,
              "Fields that other kinds of training use, such as label or chosen, and that may be passed over here; "
              "without it they are an error."),
        field("stream", &C::stream,
              "Read it while it is trained on instead of before, a window of rows at a time (stream_window), as is "
              "done with pipes and sources without a path; for what is too large for memory. One such entry makes "
              "streams of all."),
        field("source", &C::source,
              "What reads it, instead of what its extension or content says; a source of a plug-in may do without a "
              "path."),
        field("image_folder", &C::image_folder,
              "Folder that the paths of pictures start from; default: the file's own."),
        field("chat_template_kwargs", &C::chat_template_kwargs,
              "Variables of the chat template for its conversations, before those of data.chat_template_kwargs."),
        field("teacher_temperature", &C::teacher_temperature,
              "Of distillation: the temperature of this file's log-probabilities; default: "
              "objective.teacher_temperature.", {.low = 0.01, .high = 100})};
  }
  HONE_API void validate(Problems& problems) const;
};

// A document in a row. Ids and targets have the same length; a target is the label AT its place (already shifted).
struct HostDoc {
  std::vector<std::int64_t> ids, targets;
  std::int64_t record = 0;                                            // TrainingData::record_name
  Role role = Role::none;
  std::int64_t group = -1;  // neighbours in a row with the same number belong together; -1: with none
  std::map<std::string, std::vector<std::int64_t>> per_token = {};    // as HostBatch::extra, of this document
  std::map<std::string, std::int64_t> per_document = {};
  std::map<std::string, std::vector<double>> numbers = {};  // as many in each document of a batch
  std::vector<DocPicture> pictures = {};  // in the order of their places
  TaughtTargets taught = {};              // of each token
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
// What `collator` makes of them; null: pad().
HONE_API HostBatch collate(std::vector<HostRow> rows, const Collator* collator, std::int32_t pad_id,
                           const Random& random);

// Rows in the order of training. One thread at a time, but for cancel().
class HONE_API RowReader {
 public:
  virtual ~RowReader() = default;
  virtual bool next(HostRow& row) = 0;  // false: the data have ended and cannot be read again; throws Error(data)
  // Behind the row that next() gave last: what TrainingData::read() takes. "": the number of rows says all.
  virtual std::string position() const { return {}; }
  virtual void cancel() {}  // any thread: a next() that waits for data throws soon
};

class Dataset;

// What is trained on: rows in an order that is a function of the seed. Immutable, shared by loaders of any thread.
class HONE_API TrainingData {
 public:
  virtual ~TrainingData() = default;
  // From the row numbered `first` on, where a reader's position() was `position`. It must not outlive the data. Throws
  // Error(data) where a stream does not give again what was read of it until then.
  virtual std::unique_ptr<RowReader> read(std::uint64_t seed, bool shuffle, std::int64_t first,
                                          const std::string& position) const = 0;
  virtual const Dataset* as_dataset() const { return nullptr; }    // null: a stream, whose length nobody knows
  virtual std::string record_name(std::int64_t record) const = 0;  // "data/train.jsonl:17"
  // Of labelled records: what "label" of a batch counts in, or has numbers for; of tagged ones and steps what `labels`
  // of a batch counts in. As the options say, else by value (whole numbers) or by name; of regression LABEL_0 and on.
  virtual const std::vector<std::string>& labels() const = 0;
  virtual std::string fingerprint() const = 0;  // of tokenizer and options and, but for streams, file contents
};

// Tokenised, packed rows of some files.
class HONE_API Dataset : public TrainingData {
 public:
  struct Options {
    std::int64_t max_length = 1024;
    Overlong overlong = Overlong::split;
    Packing packing = Packing::best_fit;
    bool append_eos = true;         // text and completions end with the tokenizer's eos, supervised, if it has one
    std::string cache_folder = {};  // "" = no cache on disk
    std::int64_t vocab_size = 0;    // of the model: a larger id is an error; 0 = not checked
    // Which tokens are learnt; nothing: all of a text, a pair's completion, the assistant's turns of a conversation.
    std::optional<Loss> loss = {};
    RecordKind records = RecordKind::language;
    ProblemType problem_type = ProblemType::single_label_classification;  // of labelled records
    bool deduplicate = false;  // of records that become the same tokens only the first is kept; not of streams
    std::vector<std::string> labels = {};  // of labelled records, in order; another is an error; empty: those there are
    TokenLabels token_labels = {};  // of tagged records and steps
    TargetOptions targets = {};     // of sources with targets
    QuestionOptions questions = {};
    std::int64_t window = 1024;  // of streams: rows that are read, packed and shuffled together
    std::string query_prompt = {}, document_prompt = {};  // of embedding records: what stands before the texts
    std::optional<TokenVectorOptions> token_vectors = {};  // of embedding records that become vectors of their tokens
    std::string teacher_prompt = {};  // of prompts that are asked: what stands in place of answers (asked_tokens.h)
    bool keep_references = false;  // Dataset::references
    std::shared_ptr<const PictureReader> pictures = {};  // the model's; null: records with pictures are an error
    std::string chat_template_kwargs = {};  // of conversations, a JSON object; a file's and a record's own come first
    // Of language: a teacher's log-probabilities of so many likeliest tokens at each place; 0: of all; nothing: none.
    std::optional<std::int64_t> teacher_log_probs = {};
    double teacher_temperature = 1;  // that they were made with, and that those of a file are brought to with another
  };
  // Reads, tokenises (or takes from the cache), cuts and packs. Throws Error(data).
  static std::shared_ptr<const Dataset> make(const std::vector<DataFile>& files, const Tokenizer& tokenizer,
                                             const Options& options);
  std::unique_ptr<RowReader> read(std::uint64_t seed, bool shuffle, std::int64_t first,
                                  const std::string& position) const override;
  const Dataset* as_dataset() const override { return this; }

  virtual std::int64_t rows() const = 0;        // packed rows, before weights
  virtual std::int64_t epoch_rows() const = 0;  // rows per epoch, weights applied
  // The row at `position` of the endless stream (epoch = position / epoch_rows), a function of seed and position.
  virtual std::int64_t row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const = 0;
  virtual HostRow row(std::int64_t row) const = 0;
  std::vector<HostRow> take(const std::vector<std::int64_t>& rows) const;
  HostBatch batch(const std::vector<std::int64_t>& rows, std::int32_t pad_id) const { return pad(take(rows), pad_id); }
  virtual const DataReport& report() const = 0;
  virtual const QuestionDoc* question(std::int64_t /*record*/) const { return nullptr; }  // Doc::record; of questions
  // What the record answers, as texts, the first of which is learnt; null: it was not kept, or the record is of ids.
  virtual const std::vector<std::string>* references(std::int64_t /*record*/) const { return nullptr; }
  // Two data sets over the same records: first a held-out share, chosen by seed and record number, second the rest. Of
  // a file that is a single text the last share is held out, counted in tokens (with the bytes tokenizer: bytes),
  // rounded down; each of its tokens is scored. Throws Error(data) if a part would be empty.
  virtual std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split(double held_out,
                                                                                          std::uint64_t seed) const = 0;
};

// The batches of step after step, made ahead on a background thread. One thread calls its members.
class HONE_API Loader {
 public:
  // What a step has while it is not yet as all later ones are.
  struct Stage {
    std::int64_t until = 0;  // so many steps of the run
    std::int64_t batch_size = 8, accumulate = 1;
  };
  struct Options {
    std::int64_t batch_size = 8, accumulate = 1;
    std::uint64_t seed = 1;
    bool shuffle = true;
    std::int32_t pad_id = 0;
    std::shared_ptr<const Collator> collator = {};  // null: pad()
    int ahead = 2;  // groups made in advance; 0 = made by the caller's thread
    std::vector<Stage> warmup = {};                 // of the first steps, in the order of `until`
    // Tokens that a document has at most in the step behind `step` others; longer ones are cut. Empty: no limit.
    std::function<std::int64_t(std::int64_t step)> longest = {};
    std::int32_t bos_id = -1;  // a token that a document keeps when its start is cut off; -1: none
  };
  // Throws Error(data) where an epoch has fewer rows than a batch; check() does so alone, before anything is made.
  Loader(std::shared_ptr<const TrainingData> data, const Options& options);
  static void check(const Dataset& data, const Options& options);
  ~Loader();
  // To behind `step` steps, where position() was `position`; O(1), but for streams, which are opened and looked
  // through. `rows`: that these steps have taken, where they were not those of the options; nothing: as those say.
  void seek(std::int64_t step, const std::string& position = "", std::optional<std::int64_t> rows = {});
  bool has_next();                // waits for the next group; false: a stream has ended
  // `accumulate` batches, fewer and smaller ones at the end of a stream; rethrows what the background thread threw.
  std::vector<HostBatch> next();
  // A further group for the step that next() gave one for last; later steps' rows are then later ones. Empty: a stream
  // has ended. REQUIRES: steps are all alike (no `warmup`, no `longest`).
  std::vector<HostBatch> again();
  std::string position() const;   // behind what next() gave last; "": the step says all
  std::optional<double> epoch_at(std::int64_t step) const;  // nothing: a stream
  std::int64_t rows_before(std::int64_t step) const;        // of all steps before it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone
