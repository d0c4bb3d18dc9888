module @jit_body attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg1: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"dp"}, {}]>}) -> (tensor<32x8xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"tp"}, {}]>, <@mesh, [{}, {"dp"}, {}]>] out_shardings=[<@mesh, [{"tp"}, {}]>] manual_axes={"dp", "tp"} (%arg2: tensor<8x8xf32>, %arg3: tensor<4x4x8xf32>) {
      %c = stablehlo.constant dense<1> : tensor<ui32>
      %c_0 = stablehlo.constant dense<4> : tensor<ui32>
      %1 = stablehlo.partition_id : tensor<ui32>
      %2 = stablehlo.divide %1, %c : tensor<ui32>
      %3 = stablehlo.remainder %2, %c_0 : tensor<ui32>
      %4 = stablehlo.convert %3 : (tensor<ui32>) -> tensor<i32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
      %6 = stablehlo.iota dim = 0 : tensor<7xi32>
      %c_1 = stablehlo.constant dense<0> : tensor<i32>
      %7 = stablehlo.compare EQ, %4, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_2 = stablehlo.constant dense<0> : tensor<i32>
      %c_3 = stablehlo.constant dense<0> : tensor<i32>
      %8 = stablehlo.compare LT, %c_2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %c_5 = stablehlo.constant dense<4> : tensor<i32>
      %9 = stablehlo.add %c_4, %c_5 : tensor<i32>
      %c_6 = stablehlo.constant dense<0> : tensor<i32>
      %10 = stablehlo.select %8, %9, %c_6 : tensor<i1>, tensor<i32>
      %c_7 = stablehlo.constant dense<0> : tensor<i32>
      %c_8 = stablehlo.constant dense<0> : tensor<i32>
      %11 = stablehlo.compare LT, %c_7, %c_8, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c_9 = stablehlo.constant dense<0> : tensor<i32>
      %c_10 = stablehlo.constant dense<8> : tensor<i32>
      %12 = stablehlo.add %c_9, %c_10 : tensor<i32>
      %c_11 = stablehlo.constant dense<0> : tensor<i32>
      %13 = stablehlo.select %11, %12, %c_11 : tensor<i1>, tensor<i32>
      %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %14 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<7x4x8xf32>
      %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %15 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<7x4x8xf32>
      %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %16 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<7x4x8xf32>
      %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %17 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<7x4x8xf32>
      %c_16 = stablehlo.constant dense<0> : tensor<i32>
      %18:12 = stablehlo.while(%iterArg = %6, %iterArg_24 = %arg3, %iterArg_25 = %10, %iterArg_26 = %13, %iterArg_27 = %7, %iterArg_28 = %arg2, %iterArg_29 = %c_16, %iterArg_30 = %5, %iterArg_31 = %14, %iterArg_32 = %15, %iterArg_33 = %16, %iterArg_34 = %17) : tensor<7xi32>, tensor<4x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i1>, tensor<8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>
      cond {
        %c_35 = stablehlo.constant dense<7> : tensor<i32>
        %31 = stablehlo.compare LT, %iterArg_29, %c_35, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %31 : tensor<i1>
      } do {
        %31 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_29) : (tensor<7xi32>, tensor<i32>) -> tensor<i32>
        %32:5 = func.call @closed_call(%iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %iterArg_30, %31) : (tensor<4x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i1>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<i32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
        %33 = func.call @dynamic_update_index_in_dim(%iterArg_31, %32#1, %iterArg_29) : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
        %34 = func.call @dynamic_update_index_in_dim(%iterArg_32, %32#2, %iterArg_29) : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
        %35 = func.call @dynamic_update_index_in_dim(%iterArg_33, %32#3, %iterArg_29) : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
        %36 = func.call @dynamic_update_index_in_dim(%iterArg_34, %32#4, %iterArg_29) : (tensor<7x4x8xf32>, tensor<4x8xf32>, tensor<i32>) -> tensor<7x4x8xf32>
        %c_35 = stablehlo.constant dense<1> : tensor<i32>
        %37 = stablehlo.add %iterArg_29, %c_35 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %37, %32#0, %33, %34, %35, %36 : tensor<7xi32>, tensor<4x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i1>, tensor<8x8xf32>, tensor<i32>, tensor<4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>
      }
      %c_17 = stablehlo.constant dense<3> : tensor<i32>
      %19 = stablehlo.compare EQ, %4, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %20 = stablehlo.slice %18#8 [3:7, 0:4, 0:8] : (tensor<7x4x8xf32>) -> tensor<4x4x8xf32>
      %cst_18 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %21 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x4x8xf32>
      %22 = stablehlo.multiply %21, %20 : tensor<4x4x8xf32>
      %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %23 = func.call @_where_0(%19, %cst_19) : (tensor<i1>, tensor<f32>) -> tensor<f32>
      %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<f32>) -> tensor<4x4x8xf32>
      %25 = stablehlo.multiply %24, %22 : tensor<4x4x8xf32>
      %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %26 = stablehlo.pad %25, %cst_20, low = [3, 0, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<4x4x8xf32>, tensor<f32>) -> tensor<7x4x8xf32>
      %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %27 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
      %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %28 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
      %c_23 = stablehlo.constant dense<0> : tensor<i32>
      %29:9 = stablehlo.while(%iterArg = %26, %iterArg_24 = %18#9, %iterArg_25 = %18#10, %iterArg_26 = %18#11, %iterArg_27 = %7, %iterArg_28 = %arg2, %iterArg_29 = %c_23, %iterArg_30 = %28, %iterArg_31 = %27) : tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<i1>, tensor<8x8xf32>, tensor<i32>, tensor<8x8xf32>, tensor<4x8xf32>
      cond {
        %c_32 = stablehlo.constant dense<7> : tensor<i32>
        %31 = stablehlo.compare LT, %iterArg_29, %c_32, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %31 : tensor<i1>
      } do {
        %c_32 = stablehlo.constant dense<7> : tensor<i32>
        %31 = stablehlo.subtract %c_32, %iterArg_29 : tensor<i32>
        %c_33 = stablehlo.constant dense<1> : tensor<i32>
        %32 = stablehlo.subtract %31, %c_33 : tensor<i32>
        %33 = func.call @dynamic_index_in_dim_1(%iterArg, %32) : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
        %34 = func.call @dynamic_index_in_dim_1(%iterArg_24, %32) : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
        %35 = func.call @dynamic_index_in_dim_1(%iterArg_25, %32) : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
        %36 = func.call @dynamic_index_in_dim_1(%iterArg_26, %32) : (tensor<7x4x8xf32>, tensor<i32>) -> tensor<4x8xf32>
        %37:2 = func.call @closed_call_2(%iterArg_27, %iterArg_28, %iterArg_30, %iterArg_31, %33, %34, %35, %36) : (tensor<i1>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>)
        %c_34 = stablehlo.constant dense<1> : tensor<i32>
        %38 = stablehlo.add %iterArg_29, %c_34 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %38, %37#0, %37#1 : tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<7x4x8xf32>, tensor<i1>, tensor<8x8xf32>, tensor<i32>, tensor<8x8xf32>, tensor<4x8xf32>
      }
      %30 = "stablehlo.all_reduce"(%29#7) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %31 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %31 : tensor<f32>
      }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      sdy.return %30 : tensor<8x8xf32>
    } : (tensor<32x8xf32>, tensor<4x8x8xf32>) -> tensor<32x8xf32>
    return %0 : tensor<32x8xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<7xi32>, %arg1: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] : (tensor<7xi32>, tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
    return %1 : tensor<i32>
  }
  func.func private @closed_call(%arg0: tensor<4x4x8xf32>, %arg1: tensor<i32>, %arg2: tensor<i32>, %arg3: tensor<i1>, %arg4: tensor<8x8xf32>, %arg5: tensor<4x8xf32>, %arg6: tensor<i32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %c = stablehlo.constant dense<3> : tensor<i32>
    %0 = stablehlo.minimum %arg6, %c : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare LT, %0, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_1 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.add %0, %c_1 : tensor<i32>
    %3 = stablehlo.select %1, %2, %0 : tensor<i1>, tensor<i32>
    %4 = stablehlo.dynamic_slice %arg0, %3, %arg1, %arg2, sizes = [1, 4, 8] : (tensor<4x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    %6 = call @_where(%5, %arg5, %arg3) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<i1>) -> tensor<4x8xf32>
    %7 = stablehlo.dot_general %6, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %8 = stablehlo.tanh %7 : tensor<4x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %10 = stablehlo.subtract %9, %8 : tensor<4x8xf32>
    %11 = "stablehlo.collective_permute"(%8) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]> : tensor<6x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %11, %8, %6, %8, %10 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
  func.func private @_where(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<i1>) -> tensor<4x8xf32> {
    %0 = stablehlo.select %arg2, %arg0, %arg1 : tensor<i1>, tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<7x4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<i32>) -> tensor<7x4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<7x4x8xf32>, tensor<1x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<7x4x8xf32>
    return %1 : tensor<7x4x8xf32>
  }
  func.func private @_where_0(%arg0: tensor<i1>, %arg1: tensor<f32>) -> tensor<f32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.select %arg0, %arg1, %cst : tensor<i1>, tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<7x4x8xf32>, %arg1: tensor<i32>) -> tensor<4x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 4, 8] : (tensor<7x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func private @closed_call_2(%arg0: tensor<i1>, %arg1: tensor<8x8xf32>, %arg2: tensor<8x8xf32>, %arg3: tensor<4x8xf32>, %arg4: tensor<4x8xf32>, %arg5: tensor<4x8xf32>, %arg6: tensor<4x8xf32>, %arg7: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
    %0 = "stablehlo.collective_permute"(%arg3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[1, 0], [2, 1], [3, 2], [5, 4], [6, 5], [7, 6]]> : tensor<6x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.add %arg4, %0 : tensor<4x8xf32>
    %2 = stablehlo.multiply %1, %arg7 : tensor<4x8xf32>
    %3 = stablehlo.multiply %2, %arg6 : tensor<4x8xf32>
    %4 = stablehlo.add %2, %3 : tensor<4x8xf32>
    %5 = stablehlo.dot_general %4, %arg5, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<8x8xf32>
    %8 = stablehlo.dot_general %4, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %9 = call @_where_3(%arg0, %8) : (tensor<i1>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %7, %9 : tensor<8x8xf32>, tensor<4x8xf32>
  }
  func.func private @_where_3(%arg0: tensor<i1>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %1 = stablehlo.select %arg0, %0, %arg1 : tensor<i1>, tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
