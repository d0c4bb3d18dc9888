// The fields of an MPI program's collectives: sizes, counts of every member, reductions.
// Included by mpi.cpp alone.
#pragma once

#include <string>

#include "mpi_records.h"

namespace {

constexpr std::uint32_t kOwnOp = 200;  // made by the program; `caller` says by which function
std::map<MPI_Op, std::uint64_t> own_ops;

// Reductions by number, stored: their names are in records.py.
void reduces(Fields* f, MPI_Op op) {
  const MPI_Op known[] = {MPI_SUM, MPI_PROD, MPI_MAX,  MPI_MIN,  MPI_LAND,   MPI_BAND,
                          MPI_LOR, MPI_BOR,  MPI_LXOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  for (std::uint32_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (op == known[i]) return static_cast<void>(f->redop = i);
  std::lock_guard<std::mutex> lock(guard);
  const auto at = own_ops.find(op);
  f->redop = kOwnOp;
  f->caller = at == own_ops.end() ? 0 : at->second;
}

// A function of the program, by a number that is the same in every process of one binary.
std::uint64_t named(void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0) return 0;
  std::uint64_t hash = 1469598103934665603u;
  const auto mix = [&hash](const char* text) {
    for (; text != nullptr && *text; ++text)
      hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211u;
  };
  mix(info.dli_fname);
  const auto at = static_cast<char*>(function) - static_cast<char*>(info.dli_fbase);
  mix(std::to_string(at).c_str());
  return hash;
}

// What one call says of its data: bytes and element type.
struct Size {
  std::uint64_t bytes = 0;
  std::uint8_t dtype = kNoType;
};
Size of(long long n, MPI_Datatype type) {
  return {bytes(n, type), element(type)};
}

Fields round(int kind, Size size, int root, MPI_Comm comm) {
  Fields f{};
  f.op = static_cast<Op>(kind);
  f.dtype = size.dtype;
  f.comm = identity(comm);
  if (f.comm == 0) not_followed("an unknown communicator's call");
  f.count = size.bytes;
  f.peer = root < 0 || f.comm == 0 ? -1 : world_peer(comm, root);
  return f;
}

// Counts of every member, in bytes, before the record of their call: four to a record.
void counts(int out, const std::vector<std::uint64_t>& all) {
  for (std::size_t i = 0; i < all.size(); i += 4) {
    std::uint64_t words[4] = {};
    for (std::size_t j = 0; j < 4 && i + j < all.size(); ++j) words[j] = all[i + j];
    Fields f{};
    f.op = static_cast<Op>(kCounts);
    f.comm = words[0], f.count = words[1], f.stream = words[2], f.caller = words[3];
    f.peer = static_cast<std::int32_t>(all.size() - i < 4 ? all.size() - i : 4);
    f.redop = static_cast<std::uint32_t>(out);
    append(f, 0, 0);
  }
}

// Of an intercommunicator none: its counts are of the other group, and its calls not followed.
std::size_t size_of(MPI_Comm c) {
  int size = 0, inter = 0;
  PMPI_Comm_test_inter(c, &inter);
  if (!inter) PMPI_Comm_size(c, &size);
  return static_cast<std::size_t>(size);
}
std::size_t rank_in(MPI_Comm c) {
  int rank = 0;
  PMPI_Comm_rank(c, &rank);
  return static_cast<std::size_t>(rank);
}
bool at_root(int root, MPI_Comm c) {
  return root >= 0 && rank_in(c) == static_cast<std::size_t>(root);
}

std::vector<std::uint64_t> each(const int* n, MPI_Datatype type, MPI_Comm c) {
  std::vector<std::uint64_t> all(size_of(c));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = bytes(n[i], type);
  return all;
}
std::vector<std::uint64_t> even(Size size, MPI_Comm c) {
  return {std::vector<std::uint64_t>(size_of(c), size.bytes)};
}
std::uint64_t sum(const std::vector<std::uint64_t>& all) {
  std::uint64_t found = 0;
  for (const auto one : all) found += one;
  return found;
}

constexpr int kIn = 0, kOut = 1;

// A call that gives one element type and gets another: `redop` has the other's number, plus one.
Fields with_other(Fields f, std::uint8_t dtype) {
  if (dtype != kNoType && f.dtype != kNoType && dtype != f.dtype) f.redop = dtype + 1u;
  return f;
}

// The fields of each collective. Where a call has an argument for both sides and both say the same,
// the size is enough; else what the other side is to give or get stands beside it.
Fields allgather(const void* b, int n, MPI_Datatype t, int m, MPI_Datatype u, MPI_Comm c) {
  const Size gets = of(m, u), gives = b == MPI_IN_PLACE ? gets : of(n, t);
  if (gives.bytes != gets.bytes) counts(kOut, even(gets, c));
  return with_other(round(kAllgather, gives, -1, c), gets.dtype);
}
Fields allgatherv(const void* b, int n, MPI_Datatype t, const int* m, MPI_Datatype u, MPI_Comm c) {
  counts(kOut, each(m, u, c));
  return with_other(round(kAllgatherv, b == MPI_IN_PLACE ? of(m[rank_in(c)], u) : of(n, t), -1, c),
                    element(u));
}
Fields gather(const void* b, int n, MPI_Datatype t, int m, MPI_Datatype u, int root, MPI_Comm c) {
  if (!at_root(root, c)) return round(kGather, of(n, t), root, c);
  const Size gets = of(m, u), gives = b == MPI_IN_PLACE ? gets : of(n, t);
  if (gives.bytes != gets.bytes) counts(kOut, even(gets, c));
  return with_other(round(kGather, gives, root, c), gets.dtype);
}
Fields gatherv(const void* b, int n, MPI_Datatype t, const int* m, MPI_Datatype u, int root,
               MPI_Comm c) {
  if (!at_root(root, c)) return round(kGatherv, of(n, t), root, c);
  counts(kOut, each(m, u, c));
  return with_other(round(kGatherv, b == MPI_IN_PLACE ? of(m[rank_in(c)], u) : of(n, t), root, c),
                    element(u));
}
Fields scatter(int n, MPI_Datatype t, const void* r, int m, MPI_Datatype u, int root, MPI_Comm c) {
  if (!at_root(root, c)) return round(kScatter, of(m, u), root, c);
  const Size gives = of(n, t), gets = r == MPI_IN_PLACE ? gives : of(m, u);
  if (gives.bytes != gets.bytes) counts(kIn, even(gives, c));
  return with_other(round(kScatter, gets, root, c), gives.dtype);
}
Fields scatterv(const int* n, MPI_Datatype t, const void* r, int m, MPI_Datatype u, int root,
                MPI_Comm c) {
  if (!at_root(root, c)) return round(kScatterv, of(m, u), root, c);
  counts(kIn, each(n, t, c));
  return with_other(round(kScatterv, r == MPI_IN_PLACE ? of(n[rank_in(c)], t) : of(m, u), root, c),
                    element(t));
}
Fields alltoall(const void* b, int n, MPI_Datatype t, int m, MPI_Datatype u, MPI_Comm c) {
  const Size gets = of(m, u), gives = b == MPI_IN_PLACE ? gets : of(n, t);
  const auto all = even(gives, c);
  if (gives.bytes != gets.bytes) counts(kIn, all), counts(kOut, even(gets, c));
  return with_other(round(kAlltoall, {sum(all), gives.dtype}, -1, c), gets.dtype);
}
Fields alltoallv(const void* b, const int* n, MPI_Datatype t, const int* m, MPI_Datatype u,
                 MPI_Comm c) {
  const auto gets = each(m, u, c), gives = b == MPI_IN_PLACE ? gets : each(n, t, c);
  counts(kIn, gives), counts(kOut, gets);
  return with_other(round(kAlltoallv, {sum(gives), element(b == MPI_IN_PLACE ? u : t)}, -1, c),
                    element(u));
}
Fields alltoallw(const void* b, const int* n, const MPI_Datatype* t, const int* m,
                 const MPI_Datatype* u, MPI_Comm c) {
  std::vector<std::uint64_t> gives(size_of(c)), gets(gives.size());
  for (std::size_t i = 0; i < gives.size(); ++i) {
    gets[i] = bytes(m[i], u[i]);
    gives[i] = b == MPI_IN_PLACE ? gets[i] : bytes(n[i], t[i]);
  }
  counts(kIn, gives), counts(kOut, gets);
  return round(kAlltoallw, {sum(gives), kNoType}, -1, c);
}
Fields reducing(int kind, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c) {
  Fields f = round(kind, of(n, t), root, c);
  reduces(&f, o);
  return f;
}
Fields reduce_scatter(const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
  counts(kIn, each(n, t, c));
  return reducing(kReduceScatter, n[rank_in(c)], t, o, -1, c);
}

}  // namespace
