// The CPU's attention by the block-wise kernels: cuts documents into work for threads.
//
// A job is one key/value head of one document with the query heads that share it. Most jobs are done whole by one
// thread, in memory that stays in its cache. A job so large that threads would wait for its end is done by all of them,
// block by block. Both ways add the same numbers in the same order: the bits depend neither on the way nor on the
// threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "base/waiting.h"
#include "ops/attention.h"
#include "ops/cpu/products/attention.h"
#include "ops/cpu/table/heads.h"
#include "ops/cpu/table/table.h"
#include "ops/dropout_words.h"
#include "ops/kernels.h"
#include "ops/parallel.h"
#include "ops/team.h"

namespace hone::ops::cpu_table::blocks {
namespace {

using cpu::AttentionShape;

struct Job {
  AttentionShape shape;
  std::int64_t begin = 0;  // of the document
  std::int64_t group = 0;  // the key/value head
  std::int64_t rows = 0;   // of a block
  std::int64_t cost = 0;   // about how many pairs of blocks

  std::int64_t blocks() const { return (shape.queries + rows - 1) / rows; }
  std::int64_t key_blocks() const { return (shape.keys + rows - 1) / rows; }
  std::int64_t seen(std::int64_t key) const {
    return shape.window > 0 ? std::max<std::int64_t>(0, key - shape.window + 1) : 0;
  }
  // The blocks of keys that a block of queries sees begin here; of the first block of queries: that any sees.
  std::int64_t first_key_block(std::int64_t block) const {
    return seen(block * rows + shape.keys - shape.queries) / rows;
  }
  // And here is the last of them.
  std::int64_t last_key_block(std::int64_t block) const {
    const std::int64_t last = std::min(block * rows + rows, shape.queries) - 1 + shape.keys - shape.queries;
    return std::min(shape.keys - 1, last + shape.ahead) / rows;
  }
  // Backward: the blocks of queries that see a block of keys begin here.
  std::int64_t first_query_block(std::int64_t block) const {
    return std::max<std::int64_t>(0, block * rows - shape.ahead) / rows;
  }
  // They end here.
  std::int64_t last_query_block(std::int64_t block) const {
    if (shape.window <= 0) return blocks();
    return std::min(blocks(), (block * rows + rows - 1 + shape.window - 1) / rows + 1);
  }
};

Job job_of(AttentionShape shape, std::int64_t begin, std::int64_t group, std::int64_t rows = cpu::kAttentionBlock) {
  Job job{shape, begin, group, rows};
  for (std::int64_t b = 0; b < job.blocks(); ++b) job.cost += job.last_key_block(b) + 1 - job.first_key_block(b);
  return job;
}

AttentionShape shape_of(std::int64_t queries, std::int64_t keys, std::int64_t size, const AttentionOptions& options) {
  const std::int64_t window = options.mask.window;
  const bool full = options.mask.kind == Mask::Kind::full;
  const std::int64_t ahead = !full ? 0 : window > 0 ? std::min(window - 1, keys) : keys;
  return {queries, keys, size, window, options.scale, {options.dropout}, ahead, options.soft_cap};
}

std::vector<Job> jobs_of(const std::vector<Span>& spans, std::int64_t groups, std::int64_t size,
                         const AttentionOptions& options, std::int64_t rows = cpu::kAttentionBlock) {
  std::vector<Job> jobs;
  for (const Span& span : spans)
    for (std::int64_t g = 0; g < groups && span.end > span.begin; ++g) {
      const std::int64_t length = span.end - span.begin;
      jobs.push_back(job_of(shape_of(length, length, size, options), span.begin, g, rows));
    }
  return jobs;
}

// The words of all query heads and of the keys, laid out as kernels want them; empty without dropout.
class Dropout {
 public:
  Dropout(const AttentionOptions& options, std::int64_t heads, std::int64_t tokens)
      : tokens_(tokens),
        words_(options.seed, options.dropout > 0 ? heads * tokens + cpu::kAttentionBlock : 0,
               options.dropout > 0 ? tokens + cpu::kAttentionBlock : 0, options.first_head * tokens) {}
  // A job's shape for one of all query heads.
  AttentionShape shape(const Job& job, std::int64_t head) const {
    AttentionShape shape = job.shape;
    if (shape.dropout.rate > 0) {
      shape.dropout.queries = words_.rows.data() + head * tokens_ + job.begin;
      shape.dropout.keys = words_.columns.data() + job.begin;
    }
    return shape;
  }

 private:
  std::int64_t tokens_;
  DropoutWords words_;
};

// Largest first; returns how many of them are for all threads.
std::int64_t arrange(std::vector<Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.cost > b.cost; });
  if (team_size() == 1) return 0;
  const std::int64_t total = std::accumulate(jobs.begin(), jobs.end(), std::int64_t{0},
                                             [](std::int64_t sum, const Job& job) { return sum + job.cost; });
  const auto small = [&](const Job& job) { return job.cost * 4 * team_size() <= total; };
  return std::find_if(jobs.begin(), jobs.end(), small) - jobs.begin();
}

template <class Size>
std::int64_t largest(const std::vector<Job>& jobs, std::int64_t first, std::int64_t last, Size&& size) {
  std::int64_t most = 0;
  for (std::int64_t i = first; i < last; ++i) most = std::max(most, size(jobs[i].shape));
  return most;
}

// A block of a job: of keys, or of the queries of one of its heads.
struct Unit {
  std::int64_t job = 0, head = 0, block = 0;
};

template <class T>
class Forward {
 public:
  Forward(std::vector<Job> jobs, const at::Tensor& q, const Heads<T>& k, const Heads<T>& v, std::int64_t groups,
          const AttentionOptions& options, Attended& made)
      : jobs_(std::move(jobs)),
        shared_heads_(q.size(1) / groups),
        q_(q, 0),
        k_(k),
        v_(v),
        y_(made.y_NHK, 0),
        lse_(made.lse_HN.mutable_data_ptr<cpu::Wide<T>>()),
        tokens_(q.size(0)),
        dropout_(options, q.size(1), tokens_) {}

  void run() {
    const std::int64_t together = arrange(jobs_);
    run_together(together);
    run_apart(together, static_cast<std::int64_t>(jobs_.size()));
  }

 private:
  void run_apart(std::int64_t first, std::int64_t last) {
    share_out_with(last - first, [&] {
      auto keys = std::make_shared<WorkRoom>(largest(jobs_, first, last, kernels_.key_room));
      auto work = std::make_shared<WorkRoom>(largest(jobs_, first, last, kernels_.work_room));
      return [this, first, keys, work](std::int64_t unit) {
        const Job& job = jobs_[first + unit];
        for (std::int64_t b = job.first_key_block(0); b < job.key_blocks(); ++b) pack(job, b, keys->at(), work->at());
        for (std::int64_t r = 0; r < shared_heads_; ++r)
          for (std::int64_t b = 0; b < job.blocks(); ++b) attend(job, r, b, keys->at(), work->at());
      };
    });
  }

  void run_together(std::int64_t count) {
    std::vector<WorkRoom> keys;
    std::vector<Unit> packs, blocks;
    for (std::int64_t j = 0; j < count; ++j) {
      const Job& job = jobs_[j];
      keys.emplace_back(kernels_.key_room(job.shape));
      for (std::int64_t b = job.first_key_block(0); b < job.key_blocks(); ++b) packs.push_back({j, 0, b});
      for (std::int64_t r = 0; r < shared_heads_; ++r)
        for (std::int64_t b = 0; b < job.blocks(); ++b) blocks.push_back({j, r, b});
    }
    // The last blocks see the most keys: they go first.
    std::stable_sort(blocks.begin(), blocks.end(), [](const Unit& a, const Unit& b) { return a.block > b.block; });
    const auto each = [&](const std::vector<Unit>& units, auto&& work) {
      share_out_with(static_cast<std::int64_t>(units.size()), [&] {
        auto room = std::make_shared<WorkRoom>(largest(jobs_, 0, count, kernels_.work_room));
        return [&, room](std::int64_t i) { work(jobs_[units[i].job], units[i], room->at()); };
      });
    };
    each(packs, [&](const Job& job, const Unit& u, void* room) { pack(job, u.block, keys[u.job].at(), room); });
    each(blocks,
         [&](const Job& job, const Unit& u, void* room) { attend(job, u.head, u.block, keys[u.job].at(), room); });
  }

  void pack(const Job& job, std::int64_t block, void* keys, void* work) const {
    kernels_.pack_keys(job.shape, k_.read(job.group, job.begin), v_.read(job.group, job.begin), block, keys, work);
  }
  void attend(const Job& job, std::int64_t head, std::int64_t block, const void* keys, void* work) const {
    const std::int64_t h = job.group * shared_heads_ + head;
    kernels_.attend(dropout_.shape(job, h), q_.read(h, job.begin), block, keys, work, y_.rows(h, job.begin),
                    lse_ + h * tokens_ + job.begin);
  }

  const cpu::AttentionForward<T> kernels_ = cpu::attention_forward<T>();
  std::vector<Job> jobs_;
  const std::int64_t shared_heads_;  // query heads per key/value head
  const Heads<T> q_, k_, v_, y_;
  cpu::Wide<T>* const lse_;
  const std::int64_t tokens_;
  const Dropout dropout_;
};

template <class T>
class Backward {
 public:
  Backward(std::vector<Job> jobs, const at::Tensor& dy, const AttentionSaved& saved, const AttentionOptions& options,
           AttentionGradients& made)
      : jobs_(std::move(jobs)),
        shared_heads_(dy.size(1) / saved.k_NGK.size(1)),
        dy_(dy, 0),
        q_(saved.q_NHK, 0),
        y_(saved.result.y_NHK, 0),
        k_(saved.k_NGK, 0),
        v_(saved.v_NGK, 0),
        dq_(made.q_NHK, 0),
        dk_(made.k_NGK, 0),
        dv_(made.v_NGK, 0),
        lse_(saved.result.lse_HN.const_data_ptr<cpu::Wide<T>>()),
        tokens_(dy.size(0)),
        dropout_(options, dy.size(1), tokens_) {}

  void run() {
    const std::int64_t together = arrange(jobs_);
    run_together(together);
    run_apart(together, static_cast<std::int64_t>(jobs_.size()));
  }

 private:
  // What the threads that work on a job share.
  struct Shared {
    WorkRoom keys, queries;
    std::int64_t query_bytes = 0;      // per query head
    std::unique_ptr<Watched[]> added;  // per block of queries: blocks of keys added to it
  };

  Shared rooms_of(const Job& job) const {
    Shared rooms{WorkRoom(kernels_.key_room(job.shape)), {}, kernels_.query_room(job.shape), nullptr};
    rooms.queries = WorkRoom(rooms.query_bytes * shared_heads_);
    rooms.added = std::make_unique<Watched[]>(shared_heads_ * job.blocks());
    return rooms;
  }

  void run_apart(std::int64_t first, std::int64_t last) {
    share_out_with(last - first, [&] {
      auto work = std::make_shared<WorkRoom>(largest(jobs_, first, last, kernels_.work_room));
      return [this, first, work](std::int64_t unit) {
        const Job& job = jobs_[first + unit];
        const Shared rooms = rooms_of(job);
        for (std::int64_t b = 0; b < job.blocks(); ++b)
          for (std::int64_t r = -1; r < shared_heads_; ++r) pack(job, {0, r, b}, rooms, work->at());
        for (std::int64_t b = 0; b < job.blocks(); ++b) add_keys(job, b, rooms, work->at());
      };
    });
  }

  void run_together(std::int64_t count) {
    std::vector<Shared> rooms;
    std::vector<Unit> packs, blocks;
    for (std::int64_t j = 0; j < count; ++j) {
      rooms.push_back(rooms_of(jobs_[j]));
      for (std::int64_t b = 0; b < jobs_[j].blocks(); ++b) {
        for (std::int64_t r = -1; r < shared_heads_; ++r) packs.push_back({j, r, b});
        blocks.push_back({j, 0, b});
      }
    }
    // A block of keys waits for the ones before it, which somebody has therefore taken already.
    std::stable_sort(blocks.begin(), blocks.end(), [](const Unit& a, const Unit& b) { return a.block < b.block; });
    const auto each = [&](const std::vector<Unit>& units, auto&& work) {
      share_out_with(static_cast<std::int64_t>(units.size()), [&] {
        auto room = std::make_shared<WorkRoom>(largest(jobs_, 0, count, kernels_.work_room));
        return [&, room](std::int64_t i) { work(jobs_[units[i].job], units[i], room->at()); };
      });
    };
    each(packs, [&](const Job& job, const Unit& u, void* room) { pack(job, u, rooms[u.job], room); });
    each(blocks, [&](const Job& job, const Unit& u, void* room) { add_keys(job, u.block, rooms[u.job], room); });
  }

  // Head -1: the keys.
  void pack(const Job& job, const Unit& unit, const Shared& rooms, void* work) const {
    if (unit.head < 0) {
      kernels_.pack_keys(job.shape, k_.read(job.group, job.begin), v_.read(job.group, job.begin), unit.block,
                         rooms.keys.at(), work);
      return;
    }
    const std::int64_t h = job.group * shared_heads_ + unit.head;
    kernels_.pack_queries(
        job.shape,
        {q_.read(h, job.begin), y_.read(h, job.begin), dy_.read(h, job.begin), lse_ + h * tokens_ + job.begin},
        unit.block, rooms.queries.at(unit.head * rooms.query_bytes), work);
  }

  // A block of keys with all queries that see it. A block of queries is done after the last keys that it sees.
  void add_keys(const Job& job, std::int64_t block, const Shared& rooms, void* work) const {
    for (std::int64_t r = 0; r < shared_heads_; ++r) {
      const std::int64_t h = job.group * shared_heads_ + r;
      const AttentionShape shape = dropout_.shape(job, h);
      char* queries = rooms.queries.at(r * rooms.query_bytes);
      const std::int64_t first = job.first_query_block(block);
      for (std::int64_t b = first; b < job.last_query_block(block); ++b) {
        const cpu::AttentionPair pair{rooms.keys.at(), block, queries, b, work};
        kernels_.add_to_keys(shape, pair, r == 0 && b == first);
        const auto before = static_cast<std::uint32_t>(block - job.first_key_block(b));
        Watched& added = rooms.added[r * job.blocks() + b];
        added.wait_until([&](std::uint32_t now) { return now == before; });
        kernels_.add_to_queries(shape, pair, before == 0);
        added.set(before + 1);
        if (block == job.last_key_block(b))
          kernels_.finish_queries(job.shape, b, queries, work, dq_.rows(h, job.begin));
      }
    }
    kernels_.finish_keys(job.shape, block, work, dk_.rows(job.group, job.begin), dv_.rows(job.group, job.begin));
  }

  const cpu::AttentionBackward<T> kernels_ = cpu::attention_backward<T>();
  std::vector<Job> jobs_;
  const std::int64_t shared_heads_;
  const Heads<T> dy_, q_, y_, k_, v_, dq_, dk_, dv_;
  const cpu::Wide<T>* const lse_;
  const std::int64_t tokens_;
  const Dropout dropout_;
};

Attended made_for(const at::Tensor& q_NHK, bool covered) {
  const auto wide = q_NHK.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto options = q_NHK.options().dtype(wide);
  const std::array sizes{q_NHK.size(1), q_NHK.size(0)};
  return {made_like(q_NHK, covered), covered ? at::empty(sizes, options) : at::zeros(sizes, options)};
}

Attended forward(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                 const Documents& documents, const AttentionOptions& options) {
  Attended made = made_for(q_NHK, covers_all(documents.spans(), q_NHK.size(0)));
  const std::int64_t groups = k_NGK.size(1);
  cpu::with_type(q_NHK.scalar_type(), [&]<class T>(T) {
    Forward<T>(jobs_of(documents.spans(), groups, q_NHK.size(2), options), q_NHK, Heads<T>(k_NGK, 0),
               Heads<T>(v_NGK, 0), groups, options, made)
        .run();
  });
  return made;
}

AttentionGradients backward(const at::Tensor& dy_NHK, const AttentionSaved& saved, const Documents& documents,
                            const AttentionOptions& options) {
  const bool covered = covers_all(documents.spans(), dy_NHK.size(0));
  AttentionGradients made{made_like(saved.q_NHK, covered), made_like(saved.k_NGK, covered),
                          made_like(saved.v_NGK, covered)};
  cpu::with_type(dy_NHK.scalar_type(), [&]<class T>(T) {
    const std::int64_t rows = cpu::attention_backward<T>().block;
    Backward<T>(jobs_of(documents.spans(), saved.k_NGK.size(1), dy_NHK.size(2), options, rows), dy_NHK, saved, options,
                made)
        .run();
  });
  return made;
}

at::Tensor cached(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                  const AttentionOptions& options) {
  Attended made = made_for(q_NHK, true);
  const std::int64_t groups = k_GLK.size(0);
  std::vector<Job> jobs;
  for (std::int64_t g = 0; g < groups; ++g)
    jobs.push_back(job_of(shape_of(q_NHK.size(0), k_GLK.size(1), q_NHK.size(2), options), 0, g));
  cpu::with_type(q_NHK.scalar_type(), [&]<class T>(T) {
    Forward<T>(std::move(jobs), q_NHK, Heads<T>(k_GLK, 1), Heads<T>(v_GLK, 1), groups, options, made).run();
  });
  if (options.sinks) add_sinks(made, *options.sinks);
  return made.y_NHK;
}

}  // namespace
}  // namespace hone::ops::cpu_table::blocks

namespace hone::ops::cpu_table {

Backend::Attention attention() {
  return {blocks::forward, blocks::backward, blocks::cached, decode_attention, store_in_cache, store_one_each};
}

}  // namespace hone::ops::cpu_table
